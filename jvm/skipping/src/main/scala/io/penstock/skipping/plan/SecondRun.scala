package io.penstock.skipping.plan

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

  def asSubquery(keys: InSubqueryExec): InSubqueryExec = keys.copy(plan = asSubquery(keys.plan))

  private def asSubquery(plan: BaseSubqueryExec): BaseSubqueryExec = plan match {
    case reused: ReusedSubqueryExec => reused.copy(child = asSubquery(reused.child))
    case run @ SubqueryExec(_, adaptive: AdaptiveSparkPlanExec, _) if !adaptive.isSubquery =>
      run.getTagValue(Tag).getOrElse {
        val subquery = run.copy(child = adaptive.copy(isSubquery = true))
        run.setTagValue(Tag, subquery)
        subquery
      }
    case _ => plan
  }
}
