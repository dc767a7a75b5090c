package io.penstock.skipping.plan

import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}

/**
 * Where a plan, or with adaptive execution a stage, is ready to run: the place where joins' keys have been planned,
 * with and without adaptive execution, and operators can still be changed.
 */
class SkippingColumnarRule(skipFiles: SkipFiles) extends ColumnarRule {
  private val moveKeys = new MoveKeysToScans(skipFiles)

  override def preColumnarTransitions: Rule[SparkPlan] = plan => VerifySkipping(moveKeys(skipFiles(SecondRun(plan))))
}
