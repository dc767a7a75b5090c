package io.penstock.skipping.join

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{AttributeReference, DynamicPruningSubquery, Expression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.internal.SQLConf

import io.penstock.skipping.SkippingSettings

/** Filters for the relations of one tree of joins, by keys that come from elsewhere in the tree. */
private[join] class FilteredTree(
    val tree: JoinTree,
    scans: Scans,
    benefit: Benefit,
    copies: Copies,
    conf: SQLConf,
    skipping: LogicalPlan => LogicalPlan
) {

  private val settings = new SkippingSettings(conf)
  private val bytes = new ExpectedBytes(scans.index, conf.caseSensitiveAnalysis)
  private lazy val graph = JoinGraph.of(tree)
  private lazy val broadcasts = tree.joins.flatMap(Broadcast.of(_, conf))

  /** The other side of a join, its relations filtered by the keys of the side that is broadcast, as that now is. */
  def fromBroadcast(broadcast: Broadcast): LogicalPlan =
    broadcast.equalities.map(_._1).foldLeft(broadcast.other) { (side, key) =>
      targets(side, key) match {
        case Nil => side
        case reached =>
          broadcast.source(key).fold(side) { source =>
            reached.foldLeft(side)((plan, target) => filter(plan, target, source).getOrElse(plan))
          }
      }
    }

  /**
   * A side of a join, the relation that `key` is of filtered by keys of a relation further away; not where a broadcast
   * of a join between the two will do so.
   */
  def fromElsewhere(side: LogicalPlan, key: Expression): LogicalPlan = graph.key(key) match {
    case Some(target) if !scans.refuses(target.expression) && !served.exists(_._1.same(target)) =>
      val near = graph.restricting(target, settings.transitive).filter(_.relation != target.relation)
      (near.iterator.flatMap(settledSources(_)) ++ near.iterator.flatMap(separateRuns.source(_, target.relation)))
        .flatMap(filter(side, target, _))
        .nextOption()
        .getOrElse {
          DynamicFilter.column(key).foreach(scans.decide(_, attempted = false, "no small filtered table has its keys"))
          side
        }
    case _ => side
  }

  /** Keys that broadcasts serve on the other sides of their joins, and as what they serve them. */
  private lazy val served: Seq[(Key, KeySource)] = for {
    broadcast <- broadcasts
    if Restricted(broadcast.build) && Repeatable(broadcast.build)
    (key, _) <- broadcast.equalities
    target <- targets(broadcast.other, key)
    source <- broadcast.source(key)
  } yield target -> source

  private val lefts = mutable.HashMap.empty[Int, BigInt]

  /**
   * What a relation will read when all broadcasts have filtered it, also those of joins that are yet to be rewritten.
   */
  private def leftByBroadcasts(relation: Int): BigInt = lefts.getOrElseUpdate(
    relation, {
      val filters = served.collect {
        case (Key(`relation`, target), source) if target.dataType == source.key.dataType =>
          DynamicFilter(target, source, onlyInBroadcast = true)
      }
      bytes(filters.foldLeft(graph.relations(relation)) { (plan, filter) =>
        DynamicFilter.place(filter, plan)((_, _) => true).getOrElse(plan)
      })
    }
  )

  /** Broadcasts in which nothing will be filtered, so that they may be asked for from anywhere in the tree. */
  private def settledSources(key: Key): Seq[KeySource] = for {
    broadcast <- broadcasts
    if !scans.mayBeFiltered(broadcast.build)
    (expression, _) <- broadcast.equalities
    if graph.key(expression).exists(_.same(key))
    source <- broadcast.source(expression)
    if source.restricted
  } yield source

  private lazy val separateRuns =
    new SeparateRuns(graph, bytes, skipping, settings.secondRunBytes, settings.transitive)

  private def targets(side: LogicalPlan, key: Expression): Seq[Key] = for {
    source <- graph.key(key).toSeq
    target <- graph.restrictedBy(source, settings.transitive)
    // Of most keys that is plain from the index, and nobody looks for where to have them from.
    if !scans.refuses(target.expression)
    if tree.changeRelation(side, target.expression.references)(Some(_)).isDefined
  } yield target

  private def filter(side: LogicalPlan, target: Key, source: KeySource): Option[LogicalPlan] = {
    // What other filters skip, these keys save nobody; and broadcasts are there for nothing, a run of its own is not.
    def left = {
      val byNow = tree.relationOf(side, target.expression.references).fold(BigInt(0))(bytes(_))
      if (source.broadcast) byNow else byNow.min(leftByBroadcasts(target.relation))
    }
    benefit.keys(source.estimate(bytes), left) match {
      case _ if target.expression.dataType != source.key.dataType => None
      case Left(reason) =>
        DynamicFilter.column(target.expression).foreach(scans.decide(_, attempted = false, reason))
        None
      case Right(use) =>
        val filter = DynamicFilter(target.expression, source, onlyInBroadcast = use == Benefit.BroadcastOnly)
        val placed = tree.changeRelation(side, target.expression.references) { relation =>
          if (breaksCopies(filter, relation)) None else DynamicFilter.place(filter, relation)(accept(source))
        }
        if (placed.isEmpty)
          DynamicFilter
            .column(target.expression)
            .foreach(scans.decide(_, attempted = false, "the filter does not get down to the files"))
        placed
    }
  }

  private def breaksCopies(filter: DynamicPruningSubquery, relation: LogicalPlan): Boolean = !copies.isEmpty && {
    val broken = DynamicFilter.place(filter, relation)((_, _) => true).exists(!copies.allow(filter, _))
    if (broken)
      DynamicFilter
        .column(filter.pruningKey)
        .foreach(scans.decide(_, attempted = false, "an equal part of the query is read together with it"))
    broken
  }

  private def accept(source: KeySource)(relation: LogicalRelation, column: AttributeReference): Boolean = {
    val accepted = scans.accept(relation, column)
    if (accepted) scans.decide(column, attempted = true, source.description)
    accepted
  }
}
