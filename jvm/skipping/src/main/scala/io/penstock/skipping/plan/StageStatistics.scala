package io.penstock.skipping.plan

import org.apache.spark.sql.catalyst.expressions.AttributeMap
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Statistics}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.LogicalQueryStage

/**
 * Keeps the columns' statistics of a query's stages that have run.
 *
 * Adaptive execution replaces a stage's estimated rows and bytes by the counted ones and drops the statistics of its
 * columns. The cost-based optimizer then takes a join with that stage for a Cartesian product, and plans the joins
 * above by that: it may broadcast a fact table where it had planned to broadcast a few rows (TPC-DS q50).
 */
object StageStatistics extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!conf.cboEnabled) plan
    else
      plan.transformUp {
        case stage: LogicalQueryStage if !stage.isInstanceOf[StageWithColumns] =>
          new StageWithColumns(stage.logicalPlan, stage.physicalPlan)
      }
}

/**
 * A stage with the statistics that its columns had before it ran: the values of a subset lie within the same bounds.
 */
private final class StageWithColumns(logical: LogicalPlan, physical: SparkPlan)
    extends LogicalQueryStage(logical, physical) {

  override def computeStats(): Statistics = {
    val counted = super.computeStats()
    if (counted.attributeStats.nonEmpty) counted
    else {
      val columns = logical.stats.attributeStats.toSeq.collect {
        case (column, statistics) if outputSet.contains(column) =>
          column -> statistics.copy(
            distinctCount = least(statistics.distinctCount, counted.rowCount),
            nullCount = least(statistics.nullCount, counted.rowCount)
          )
      }
      counted.copy(attributeStats = AttributeMap(columns))
    }
  }

  // Equal to the stage that it replaces, it would be taken for it and dropped.
  override def canEqual(other: Any): Boolean = other.isInstanceOf[StageWithColumns]
  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
  override def hashCode: Int = super.hashCode

  private def least(estimated: Option[BigInt], rows: Option[BigInt]): Option[BigInt] =
    estimated.map(count => rows.fold(count)(count.min))
}
