package io.penstock.skipping.plan

import org.apache.spark.sql.catalyst.expressions.PredicateHelper
import org.apache.spark.sql.catalyst.expressions.{And, DynamicPruning, DynamicPruningExpression, Expression}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution._

/**
 * Takes the filters of [[org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery]], once they are planned,
 * from above scans to the scans themselves, which skip files by them; as conditions on rows they would say nothing that
 * the join does not say. What cannot be used goes away.
 */
class MoveKeysToScans(skipFiles: SkipFiles) extends Rule[SparkPlan] with PredicateHelper {

  override def apply(plan: SparkPlan): SparkPlan = plan.transform {
    case filter @ FilterExec(condition, child) if splitConjunctivePredicates(condition).exists(isDynamic) =>
      val (dynamic, others) = splitConjunctivePredicates(condition).partition(isDynamic)
      val below = child match {
        // Spark pushes a filter down, too, where the side that its keys come from has a scalar subquery.
        case scan: FileSourceScanExec =>
          skipFiles.skipping(scan.copy(dataFilters = scan.dataFilters.filterNot(isDynamic)), dynamic.flatMap(keys))
        case _ => child
      }
      others.reduceOption(And).fold(below)(rest => filter.copy(condition = rest, child = below))
  }

  private def isDynamic(condition: Expression): Boolean = condition.isInstanceOf[DynamicPruning]

  private def keys(condition: Expression): Option[InSubqueryExec] = condition match {
    case DynamicPruningExpression(in: InSubqueryExec) if isComplete(in.plan) => Some(in)
    case _ => None
  }

  /** Whether all of a subquery's rows are its keys: one of another kind may leave some out, or give none at all. */
  private def isComplete(subquery: BaseSubqueryExec): Boolean = subquery match {
    case ReusedSubqueryExec(inner) => isComplete(inner)
    case _: SubqueryBroadcastExec | _: SubqueryExec => subquery.output.length == 1
    case _ => false
  }
}
