package io.penstock.skipping.join

import org.apache.spark.sql.catalyst.expressions.SubqueryExpression
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.types.{DoubleType, FloatType}

/**
 * Whether a plan yields the same rows when it is run once more.
 *
 * The keys of a join's side may come from a second run of it: a key the second run misses would lose rows of the join.
 * Catalyst's `deterministic` is not enough: a LIMIT may take other rows, a window function break ties otherwise, a sum
 * of doubles come out otherwise, and the code of typed operations may do anything.
 */
private[join] object Repeatable {

  def apply(plan: LogicalPlan): Boolean =
    plan.deterministic && !plan.isStreaming && isRepeatable(plan) && plan.children.forall(apply) &&
      plan.expressions.forall(_.collect { case subquery: SubqueryExpression => subquery.plan }.forall(apply))

  private def isRepeatable(node: LogicalPlan): Boolean = node match {
    case LogicalRelation(_: HadoopFsRelation, _, _, _, _) | _: LocalRelation | _: OneRowRelation => true
    case _: Project | _: Filter | _: Join | _: Union => true
    case aggregate: Aggregate =>
      !aggregate.aggregateExpressions.exists(
        _.exists(part => part.dataType == DoubleType || part.dataType == FloatType)
      )
    case _ => false
  }
}
