package io.penstock.skipping.line

import org.apache.spark.sql.catalyst.expressions.{DynamicPruningSubquery, Expression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** The interfaces that differ between Spark's lines, for 4.0 to 4.2. */
private[skipping] object DynamicPruning {

  /** Spark's filter by the values of `keys(key)` in the answer of `plan`. */
  def subquery(
      pruned: Expression,
      plan: LogicalPlan,
      keys: Seq[Expression],
      key: Int,
      onlyInBroadcast: Boolean
  ): DynamicPruningSubquery =
    DynamicPruningSubquery(pruned, plan, keys, Seq(key), onlyInBroadcast)
}
