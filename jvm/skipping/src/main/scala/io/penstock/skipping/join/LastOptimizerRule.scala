package io.penstock.skipping.join

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule

/**
 * Has `rule` run after all of Spark's own rules, where an extension cannot place one.
 *
 * Injected itself as an ordinary optimizer rule, it does nothing but to be made: Spark makes it when it puts the
 * batches of its optimizer together, and reads the last of these, the session's extra optimizations, thereafter. So it
 * holds for a session's first query, for cloned sessions, and after somebody else has set the extra optimizations.
 */
class LastOptimizerRule(session: SparkSession, rule: Rule[LogicalPlan]) extends Rule[LogicalPlan] {

  private val experimental = session.experimental
  if (!experimental.extraOptimizations.exists(_.ruleName == rule.ruleName))
    experimental.extraOptimizations = experimental.extraOptimizations :+ rule

  override def apply(plan: LogicalPlan): LogicalPlan = plan
}
