package io.penstock.skipping.plan

import org.apache.spark.sql.catalyst.expressions.{DynamicPruningExpression, Expression}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec

/**
 * A run beside the query for the keys of a join's side, as Spark plans it but for one thing: Spark takes it for the
 * query itself. Adaptive execution would then tell the user interface of the whole query's plan each time the run has
 * planned a stage. Telling of a scan takes the scan's lock, and the scan that waits for these keys holds it: neither
 * would ever go on. As a subquery it tells of its own metrics only.
 */
private[plan] object SecondRun {

  /** In its place; the same for the same run, so that scans which share one go on sharing it. */
  private val Tag = TreeNodeTag[SubqueryExec]("io.penstock.skipping.second-run")

  def asSubquery(keys: InSubqueryExec): InSubqueryExec = {
    val plan = asSubquery(keys.plan)
    if (plan eq keys.plan) keys else keys.copy(plan = plan)
  }

  /**
   * Likewise of a filter that partitions are pruned by, whoever asked for it: Spark waits for these in the same way.
   *
   * Not by transforming: what Spark takes for the query itself and for a subquery are equal to it, and of equal nodes
   * it keeps the one that was there.
   */
  def inFilter(filter: Expression): Expression = filter match {
    case DynamicPruningExpression(keys: InSubqueryExec) => DynamicPruningExpression(asSubquery(keys))
    case _ => filter
  }

  private def asSubquery(plan: BaseSubqueryExec): BaseSubqueryExec = plan match {
    case reused: ReusedSubqueryExec =>
      val child = asSubquery(reused.child)
      if (child eq reused.child) reused else reused.copy(child = child)
    case run @ SubqueryExec(_, adaptive: AdaptiveSparkPlanExec, _) if !adaptive.isSubquery =>
      // Subqueries that share a run are planned in threads of their own.
      synchronized(run.getTagValue(Tag).getOrElse {
        val subquery = run.copy(child = adaptive.copy(isSubquery = true))
        run.setTagValue(Tag, subquery)
        subquery
      })
    case _ => plan
  }
}
