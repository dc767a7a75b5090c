package io.penstock.skipping.plan

import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.catalyst.trees.TreePattern.PLAN_EXPRESSION
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec

/**
 * Makes a subquery of each run beside the query for the keys of a join's side, whoever asked for it: Spark takes such a
 * run for the query itself. Adaptive execution would then print the whole query's plan each time the run has planned a
 * stage. Printing a scan takes the scan's lock, and the scan that waits for these keys holds it: neither would ever go
 * on. A subquery posts its own metrics only. Spark alone hangs in this way (SPARK-57041), so the rule applies to all
 * tables, indexed or not, and with skipping off.
 */
private[plan] object SecondRun extends Rule[SparkPlan] {

  /** On Spark's run: the subquery in its place, so that scans which share one run go on sharing it. */
  private val Tag = TreeNodeTag[SubqueryExec]("io.penstock.skipping.second-run")

  override def apply(plan: SparkPlan): SparkPlan =
    plan.transformAllExpressionsWithPruning(_.containsPattern(PLAN_EXPRESSION)) {
      case waiting: ExecSubqueryExpression =>
        val subquery = asSubquery(waiting.plan)
        if (subquery eq waiting.plan) waiting else waiting.withNewPlan(subquery)
    }

  private def asSubquery(plan: BaseSubqueryExec): BaseSubqueryExec = plan match {
    case reused: ReusedSubqueryExec =>
      val child = asSubquery(reused.child)
      if (child eq reused.child) reused else reused.copy(child = child)
    case run @ SubqueryExec(name, adaptive: AdaptiveSparkPlanExec, _) if !adaptive.isSubquery =>
      // Subqueries that share a run are planned in threads of their own.
      run.synchronized(run.getTagValue(Tag).getOrElse {
        // The name tells the two apart: adaptive plans that differ only in `isSubquery` are equal, and of equal nodes
        // a transformation keeps the former one.
        val subquery = run.copy(name = s"$name (second run)", child = adaptive.copy(isSubquery = true))
        run.setTagValue(Tag, subquery)
        subquery
      })
    case _ => plan
  }
}
