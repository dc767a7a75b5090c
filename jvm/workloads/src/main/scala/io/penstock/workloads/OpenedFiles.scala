package io.penstock.workloads

import java.util.concurrent.atomic.LongAdder
import java.util.concurrent.{ConcurrentHashMap, CountDownLatch, TimeUnit}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanHelper
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanExecBase
import org.apache.spark.sql.execution.{FileSourceScanLike, QueryExecution, SparkPlan}
import org.apache.spark.sql.util.QueryExecutionListener

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

  /** Whether `of` knows all that the plan reads: connectors such as Iceberg's count no files in Spark's way. */
  def isComplete(plan: SparkPlan): Boolean =
    collectWithSubqueries(plan) { case scan: DataSourceV2ScanExecBase => scan }.isEmpty

  private def table(scan: FileSourceScanLike): String =
    scan.tableIdentifier.fold(scan.relation.location.rootPaths.headOption.fold("")(_.getName))(_.table)

  // A size that was never set is negative.
  private def metric(scan: FileSourceScanLike, name: String): Long = math.max(0L, scan.metrics(name).value)
}

/**
 * Counts the files that the queries of a session open from now on: the same way for any file system and any settings.
 *
 * A Dataset turned into an RDD is no query, and is not counted.
 */
class OpenedFiles(spark: SparkSession) {
  import OpenedFiles._

  private val files = new LongAdder
  private val awaited = new ConcurrentHashMap[QueryExecution, CountDownLatch]

  spark.listenerManager.register(new QueryExecutionListener {
    override def onSuccess(function: String, query: QueryExecution, nanos: Long): Unit = {
      files.add(TableReads.of(query.executedPlan).values.map(_.files).sum)
      Option(awaited.remove(query)).foreach(_.countDown())
    }
    override def onFailure(function: String, query: QueryExecution, error: Exception): Unit = ()
  })

  // Spark may still report what ended before.
  private val before = seen()

  /** The files that all queries since then have opened; None where Spark does not say in time that they have ended. */
  def count(): Option[Long] = for (now <- seen(); earlier <- before) yield now - earlier

  private def seen(): Option[Long] = {
    // Spark reports queries in the order in which they end, some time later: the last one is this one.
    val last = spark.emptyDataFrame
    val reported = new CountDownLatch(1)
    awaited.put(last.queryExecution, reported)
    last.collect()
    Option.when(reported.await(PatienceSeconds, TimeUnit.SECONDS))(files.sum())
  }
}

object OpenedFiles {
  private val PatienceSeconds = 30L
}
