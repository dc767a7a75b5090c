package io.penstock.workloads.tpcds

import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanHelper
import org.apache.spark.sql.execution.{FileSourceScanLike, SparkPlan}

/** Files of one table that scans were left with after all pruning and skipping; `bytes` are their whole sizes. */
case class TableRead(files: Long, bytes: Long) {
  def +(other: TableRead): TableRead = TableRead(files + other.files, bytes + other.bytes)
}

/** Which files a query's scans opened, by the metrics that Spark's own interface shows. */
object TableReads extends AdaptiveSparkPlanHelper {

  /**
   * By table, of a plan that has run. What is scanned twice counts twice, what is reused once; a scan that adaptive
   * execution made needless, or whose stage was never asked for, read nothing.
   */
  def of(plan: SparkPlan): Map[String, TableRead] = {
    val scans = collectWithSubqueries(plan) { case scan: FileSourceScanLike => scan }
    // A plan may be reached on two ways: through the plan itself and through a subquery that reuses part of it.
    scans
      .distinctBy(_.metrics("numFiles").id)
      .groupMapReduce(table)(scan => TableRead(metric(scan, "numFiles"), metric(scan, "filesSize")))(_ + _)
  }

  private def table(scan: FileSourceScanLike): String =
    scan.tableIdentifier.fold(scan.relation.location.rootPaths.headOption.fold("")(_.getName))(_.table)

  // A size that was never set is negative.
  private def metric(scan: FileSourceScanLike, name: String): Long = math.max(0L, scan.metrics(name).value)
}
