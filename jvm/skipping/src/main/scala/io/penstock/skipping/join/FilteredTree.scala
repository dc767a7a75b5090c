package io.penstock.skipping.join

import org.apache.spark.sql.catalyst.expressions.{AttributeReference, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.internal.SQLConf

import io.penstock.skipping.SkippingSettings

/** Filters for the relations of one tree of joins, by keys that come from elsewhere in the tree. */
private[join] class FilteredTree(top: Join, scans: Scans, benefit: Benefit, conf: SQLConf) {

  private val settings = new SkippingSettings(conf)
  private val graph = JoinGraph.of(top)
  private val broadcasts = JoinGraph.joins(top).flatMap(Broadcast.of(_, conf))

  /** The other side of a join, its relations filtered by the keys of the side that is broadcast, as that now is. */
  def fromBroadcast(broadcast: Broadcast): LogicalPlan =
    broadcast.equalities.map(_._1).foldLeft(broadcast.other) { (side, key) =>
      broadcast.source(key).fold(side) { source =>
        targets(side, key).foldLeft(side)((plan, target) => filter(plan, target, source).getOrElse(plan))
      }
    }

  /**
   * A side of a join, the relation that `key` is of filtered by keys of a relation further away; not where a broadcast
   * of a join between the two will do so.
   */
  def fromElsewhere(side: LogicalPlan, key: Expression): LogicalPlan = graph.key(key) match {
    case Some(target) if !served.exists(_.same(target)) =>
      val near = graph.restricting(target, settings.transitive).filter(_.relation != target.relation)
      (near.iterator.flatMap(settledSources(_)) ++ near.iterator.flatMap(separateSource(_, target)))
        .flatMap(filter(side, target, _))
        .nextOption()
        .getOrElse {
          DynamicFilter.column(key).foreach(scans.decide(_, attempted = false, "no small filtered table has its keys"))
          side
        }
    case _ => side
  }

  /** Keys that broadcasts serve on the other sides of their joins. */
  private lazy val served: Seq[Key] = for {
    broadcast <- broadcasts
    if Restricted(broadcast.build) && Repeatable(broadcast.build)
    (key, _) <- broadcast.equalities
    target <- targets(broadcast.other, key)
  } yield target

  /** Broadcasts in which nothing will be filtered, so that they may be asked for from anywhere in the tree. */
  private def settledSources(key: Key): Seq[KeySource] = for {
    broadcast <- broadcasts
    if !scans.areIndexed(broadcast.build)
    (expression, _) <- broadcast.equalities
    if graph.key(expression).exists(_.same(key))
    source <- broadcast.source(expression)
    if source.restricted
  } yield source

  private def separateSource(key: Key, target: Key): Option[KeySource] =
    KeySource.separate(graph, key, target.relation, settings.secondRunBytes, settings.transitive)

  private def targets(side: LogicalPlan, key: Expression): Seq[Key] = for {
    source <- graph.key(key).toSeq
    target <- graph.restrictedBy(source, settings.transitive)
    if JoinGraph.changeRelation(side, target.expression.references)(Some(_)).isDefined
  } yield target

  private def filter(side: LogicalPlan, target: Key, source: KeySource): Option[LogicalPlan] = {
    val size = KeySource.bytes(graph.relations(target.relation))
    benefit.keys(source.estimate, size) match {
      case _ if target.expression.dataType != source.key.dataType => None
      case Left(reason) =>
        DynamicFilter.column(target.expression).foreach(scans.decide(_, attempted = false, reason))
        None
      case Right(use) =>
        val filter = DynamicFilter(target.expression, source, onlyInBroadcast = use == Benefit.BroadcastOnly)
        val placed = JoinGraph.changeRelation(side, target.expression.references) { relation =>
          DynamicFilter.place(filter, relation)(accept(source))
        }
        if (placed.isEmpty)
          DynamicFilter
            .column(target.expression)
            .foreach(scans.decide(_, attempted = false, "the filter does not get down to the files"))
        placed
    }
  }

  private def accept(source: KeySource)(relation: LogicalRelation, column: AttributeReference): Boolean = {
    val accepted = scans.accept(relation, column)
    if (accepted) scans.decide(column, attempted = true, source.description)
    accepted
  }
}
