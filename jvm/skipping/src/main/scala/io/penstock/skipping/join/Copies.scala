package io.penstock.skipping.join

import org.apache.spark.sql.catalyst.expressions.{DynamicPruningSubquery, Expression}
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, Filter, LogicalPlan}

/**
 * Groupings that are in a plan more than once, of which Spark computes the first and takes its exchange for the others
 * as long as they are equal, and which filters are to leave equal. Groupings, since what stands below one is exchanged.
 *
 * @param common
 *   a grouping as it is without filters → the filters that all of its copies are to have, and no others
 */
private[join] class Copies(common: Map[LogicalPlan, Set[Copies.KeyFilter]]) {
  import Copies._

  def isEmpty: Boolean = common.isEmpty

  /** Whether the filter, as it was placed in a plan, is one that all copies of the groupings in that plan have. */
  def allow(filter: DynamicPruningSubquery, placed: LogicalPlan): Boolean = isEmpty || groupings(placed).forall {
    grouping =>
      common.get(unfiltered(grouping)).forall(KeyFilter.of(grouping)(_.exprId == filter.exprId).subsetOf)
  }
}

private[join] object Copies {

  val None = new Copies(Map.empty)

  /**
   * Those of which one copy has no filter in `filtered` that another has not, too, and another has more: what that one
   * does not read, it could have had for nothing. (q64 of TPC-DS read a third more of a table.)
   */
  def unequal(filtered: LogicalPlan): Copies = {
    val copies = groupings(filtered).groupMap(unfiltered)(KeyFilter.of(_)(_ => true))
    new Copies(for {
      (grouping, filters) <- copies if filters.distinct.size > 1
      least <- filters.find(few => filters.forall(few.subsetOf))
    } yield grouping -> least)
  }

  /**
   * A filter, told without the names that each copy has of its own.
   *
   * @param scan
   *   of which of the plan's leaves it filters the files
   * @param build
   *   what has the keys
   */
  case class KeyFilter(scan: Int, column: String, build: LogicalPlan, keys: Seq[Expression])

  private object KeyFilter {

    /** Those filters of the plan that are asked for. */
    def of(plan: LogicalPlan)(which: DynamicPruningSubquery => Boolean): Set[KeyFilter] = {
      val leaves = plan.collectLeaves()
      val filters = for {
        (condition, scan) <- plan.collect { case Filter(condition, scan) => condition -> leaves.indexWhere(_ eq scan) }
        filter <- condition.collect { case filter: DynamicPruningSubquery if which(filter) => filter }
        column <- filter.pruningKey.references.headOption
      } yield {
        val build = filter.buildQuery
        val keys = filter.broadcastKeyIndices.map(filter.buildKeys)
        KeyFilter(scan, column.name, build.canonicalized, keys.map(QueryPlan.normalizeExpressions(_, build.output)))
      }
      filters.toSet
    }
  }

  private def groupings(plan: LogicalPlan): Seq[Aggregate] = plan.collect { case grouping: Aggregate => grouping }

  private def unfiltered(plan: LogicalPlan): LogicalPlan = DynamicFilter.strip(plan).canonicalized
}
