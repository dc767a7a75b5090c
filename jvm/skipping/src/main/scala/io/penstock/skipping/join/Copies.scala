package io.penstock.skipping.join

import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan}

/**
 * Groupings that are in a plan more than once, of which Spark computes the first and takes its exchange for the others
 * as long as they are equal, and which filters are to leave equal. Groupings, since what stands below one is exchanged.
 */
private[join] class Copies(groupings: Set[LogicalPlan]) {

  def isEmpty: Boolean = groupings.isEmpty

  /** Whether those of a plan are still what they were, after a filter was placed in it. */
  def intact(before: LogicalPlan, after: LogicalPlan): Boolean = isEmpty || count(before) == count(after)

  private def count(plan: LogicalPlan): Int = Copies.groupings(plan).count(found => groupings(found.canonicalized))
}

private[join] object Copies {

  val None = new Copies(Set.empty)

  /**
   * Those of `plan` of which `filtered`, the same plan with its filters, has one that is read whole, and others that
   * are not: these could have been had for nothing. (q64 of TPC-DS read a third more of a table.)
   */
  def partlyFiltered(plan: LogicalPlan, filtered: LogicalPlan): Copies = {
    val repeated = groupings(plan).groupBy[LogicalPlan](_.canonicalized).filter(_._2.size > 1)
    lazy val whole = groupings(filtered).groupBy[LogicalPlan](_.canonicalized)
    new Copies(repeated.collect {
      case (grouping, equal) if whole.get(grouping).exists(_.size < equal.size) => grouping
    }.toSet)
  }

  private def groupings(plan: LogicalPlan): Seq[Aggregate] = plan.collect { case grouping: Aggregate => grouping }
}
