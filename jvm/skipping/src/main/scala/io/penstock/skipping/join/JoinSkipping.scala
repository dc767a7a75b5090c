package io.penstock.skipping.join

import java.lang.ref.WeakReference

import org.apache.spark.sql.catalyst.expressions.{DynamicPruningSubquery, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Subquery}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.catalyst.trees.TreePattern.{DYNAMIC_PRUNING_SUBQUERY, JOIN}
import org.apache.spark.sql.execution.datasources.HadoopFsRelation

import io.penstock.skipping.SkippingSettings
import io.penstock.skipping.index.TableIndex

/**
 * Filters file scans by the keys that joins find at run time, so that files without any of them need not be read.
 *
 * To be run last of all optimizer rules, when the sides of joins no longer change. It starts afresh each time, so that
 * a plan it has been through before, as that of a subquery that became part of a query, is decided on as a whole; where
 * it comes to the same filters, the plan is returned as it was. Spark runs it until nothing changes any more: of a plan
 * that it has just returned it says so at once.
 */
class JoinSkipping(indexOf: HadoopFsRelation => Option[TableIndex]) extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    // It will become a join, whose sides are not known yet.
    case subquery: Subquery if subquery.correlated => plan
    case _ if JoinSkipping.isSettled(plan) => plan
    case _ if !isOn || !plan.containsPattern(JOIN) || plan.isStreaming => plan
    case _ =>
      val joins = new KeysOfJoins(DynamicFilter.strip(plan), conf, indexOf).leavingCopiesEqual
      val filtered = reuse(joins.filtered, plan)
      val result = if (filtered.fastEquals(plan)) plan else filtered
      joins.record(result)
      JoinSkipping.settle(result)
      result
  }

  // Without Spark's own dynamic pruning nobody plans the filters.
  private def isOn: Boolean =
    new SkippingSettings(conf).dynamic && conf.dynamicPartitionPruningEnabled && conf.exchangeReuseEnabled

  /** The filters of `before`, with their identities, in place of equal ones. */
  private def reuse(plan: LogicalPlan, before: LogicalPlan): LogicalPlan = {
    val known = before
      .flatMap(_.expressions.flatMap(_.collect { case filter: DynamicPruningSubquery => filter }))
      .map(filter => filter.canonicalized -> filter)
      .toMap[Expression, DynamicPruningSubquery]
    if (known.isEmpty) plan
    else
      plan.transformAllExpressionsWithPruning(_.containsPattern(DYNAMIC_PRUNING_SUBQUERY)) {
        case filter: DynamicPruningSubquery => known.getOrElse(filter.canonicalized, filter)
      }
  }
}

private object JoinSkipping {

  /** On the root of a plan that the rule returned: that root. Copies of it have the tag, too, and are others. */
  private val Settled = TreeNodeTag[WeakReference[LogicalPlan]]("io.penstock.skipping.settled")

  private def settle(plan: LogicalPlan): Unit = plan.setTagValue(Settled, new WeakReference(plan))

  private def isSettled(plan: LogicalPlan): Boolean = plan.getTagValue(Settled).exists(_.get eq plan)
}
