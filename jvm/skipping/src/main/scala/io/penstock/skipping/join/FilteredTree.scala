package io.penstock.skipping.join

import org.apache.spark.sql.catalyst.expressions.{AttributeReference, Expression}
import org.apache.spark.sql.catalyst.optimizer.{BuildLeft, BuildSide}
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.execution.datasources.LogicalRelation

import io.penstock.skipping.SkippingSettings

/** Filters for the relations of one tree of joins, by keys that come from elsewhere in the tree. */
private[join] class FilteredTree(
    top: Join,
    broadcastSide: Join => Option[BuildSide],
    scans: Scans,
    benefit: Benefit,
    settings: SkippingSettings
) {

  private val graph = JoinGraph.of(top)

  /**
   * Filters relations of `side` by the keys of a join's other side, `build`, that is broadcast.
   *
   * @param joinKeys
   *   all keys of `build` in the order of the join
   * @param equal
   *   those of them that the join compares by `=`
   */
  def byBroadcast(
      side: LogicalPlan,
      build: LogicalPlan,
      joinKeys: Seq[Expression],
      equal: Seq[Expression]
  ): LogicalPlan = equal.foldLeft(side) { (sofar, key) =>
    val source =
      KeySource(build, joinKeys, joinKeys.indexWhere(_.semanticEquals(key)), Restricted(build), broadcast = true)
    if (source.index < 0) sofar
    else targets(sofar, key).foldLeft(sofar)((plan, target) => filter(plan, target, source).getOrElse(plan))
  }

  /** Filters the relation of `side` that `key` is of by a plan of its own, where no broadcast serves it. */
  def bySecondRun(side: LogicalPlan, key: Expression): LogicalPlan = graph.key(key) match {
    case Some(target) if !served.exists(_.same(target)) =>
      graph
        .restricting(target, settings.transitive)
        .iterator
        .filter(_.relation != target.relation)
        .flatMap(KeySource.separate(graph, _, target.relation, settings.secondRunBytes, settings.transitive))
        .flatMap(filter(side, target, _))
        .nextOption()
        .getOrElse(side)
    case _ => side
  }

  /** Keys that broadcasts will serve. */
  private lazy val served: Seq[Key] = for {
    join <- JoinGraph.joins(top)
    buildSide <- broadcastSide(join).toSeq
    (build, other) = if (buildSide == BuildLeft) (join.left, join.right) else (join.right, join.left)
    if Restricted(build) && Repeatable(build)
    (left, right) <- JoinGraph.equalities(join)
    target <- targets(other, if (buildSide == BuildLeft) left else right)
  } yield target

  private def targets(side: LogicalPlan, key: Expression): Seq[Key] = for {
    source <- graph.key(key).toSeq
    target <- graph.restrictedBy(source, settings.transitive)
    if target.expression.dataType == key.dataType
    if JoinGraph.changeRelation(side, target.expression.references)(Some(_)).isDefined
  } yield target

  private def filter(side: LogicalPlan, target: Key, source: KeySource): Option[LogicalPlan] = {
    val size = KeySource.bytes(graph.relations(target.relation))
    benefit.keys(source.estimate, size) match {
      case Left(reason) =>
        DynamicFilter.column(target.expression).foreach(scans.decide(_, attempted = false, reason))
        None
      case Right(use) =>
        val filter = DynamicFilter(target.expression, source, onlyInBroadcast = use == Benefit.BroadcastOnly)
        JoinGraph.changeRelation(side, target.expression.references) { relation =>
          DynamicFilter.place(filter, relation)(accept(source))
        }
    }
  }

  private def accept(source: KeySource)(relation: LogicalRelation, column: AttributeReference): Boolean = {
    val accepted = scans.accept(relation, column)
    if (accepted) scans.decide(column, attempted = true, source.description)
    accepted
  }
}
