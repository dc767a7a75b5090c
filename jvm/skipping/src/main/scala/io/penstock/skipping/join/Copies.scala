package io.penstock.skipping.join

import org.apache.spark.sql.catalyst.expressions.{DynamicPruningSubquery, ExprId, Expression}
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, Filter, LogicalPlan}
import org.apache.spark.sql.execution.datasources.LogicalRelation

/**
 * Groupings that are in a plan more than once, of which Spark computes the first and takes its exchange for the others
 * as long as they are equal, and which filters are to leave equal. Groupings, since what stands below one is exchanged.
 *
 * @param common
 *   for each scan below such groupings, the filters that all copies of each are to have, and no others; and which of
 *   the grouping's leaves it is
 */
private[join] class Copies(common: Map[Copies.Scan, Seq[(Int, Set[Copies.KeyFilter])]]) {
  import Copies._

  def isEmpty: Boolean = common.isEmpty

  /** Whether the filter, as it was placed in a plan, is one that the copies of each grouping have. */
  def allow(filter: DynamicPruningSubquery, placed: LogicalPlan): Boolean = isEmpty || filters(placed).forall {
    case (relation, found) =>
      found.exprId != filter.exprId || common.getOrElse(scan(relation), Nil).forall { case (leaf, allowed) =>
        allowed(KeyFilter.of(leaf, found))
      }
  }
}

private[join] object Copies {

  /** A scan by the columns it has, which no other has. */
  type Scan = Seq[ExprId]

  val None = new Copies(Map.empty)

  /**
   * Those of which one copy has in `filtered` only such filters as all the others have, too, and another has more: what
   * the first reads, the other could have had for nothing. (q64 of TPC-DS read a third more of a table.)
   */
  def unequal(filtered: LogicalPlan): Copies = {
    val groupings = filtered.collect { case grouping: Aggregate => grouping }
    val limits = for {
      copies <- groupings.groupBy(DynamicFilter.strip(_).canonicalized).values.toSeq if copies.size > 1
      kept = copies.map(KeyFilter.in)
      least <- kept.find(few => kept.forall(few.subsetOf)).toSeq if kept.exists(_ != least)
      copy <- copies
      (relation: LogicalRelation, leaf) <- copy.collectLeaves().zipWithIndex
    } yield scan(relation) -> (leaf, least)
    new Copies(limits.groupMap(_._1)(_._2))
  }

  /**
   * A filter, told without the names that each copy has of its own.
   *
   * @param leaf
   *   of the grouping, whose files it filters
   * @param build
   *   what has the keys
   */
  case class KeyFilter(leaf: Int, column: Option[String], build: LogicalPlan, keys: Seq[Expression])

  private object KeyFilter {

    def of(leaf: Int, filter: DynamicPruningSubquery): KeyFilter = {
      val build = filter.buildQuery
      val keys = filter.broadcastKeyIndices.map(filter.buildKeys)
      KeyFilter(
        leaf,
        DynamicFilter.column(filter.pruningKey).map(_.name),
        build.canonicalized,
        keys.map(QueryPlan.normalizeExpressions(_, build.output))
      )
    }

    def in(grouping: LogicalPlan): Set[KeyFilter] = {
      val leaves = grouping.collectLeaves()
      filters(grouping).map { case (relation, filter) => of(leaves.indexWhere(_ eq relation), filter) }.toSet
    }
  }

  private def filters(plan: LogicalPlan): Seq[(LogicalRelation, DynamicPruningSubquery)] = plan.collect {
    case Filter(condition, relation: LogicalRelation) =>
      condition.collect { case filter: DynamicPruningSubquery => relation -> filter }
  }.flatten

  private def scan(relation: LogicalRelation): Scan = relation.output.map(_.exprId)
}
