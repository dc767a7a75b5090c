package io.penstock.workloads.tpcds

import scala.collection.immutable.ListMap
import scala.util.control.NonFatal

import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{Row, SparkSession}

import io.penstock.cluster.observe.ApplicationCounts
import io.penstock.workloads.JsonValues

/**
 * One execution of one query; times are of the wall clock, in milliseconds.
 *
 * @param reads
 *   by table, the files its scans opened
 * @param counts
 *   what the file systems of driver and executors counted meanwhile; None where nothing observes them
 */
private case class Execution(
    query: String,
    startedMs: Long,
    elapsedMs: Double,
    planningMs: Option[Double] = None,
    schema: StructType = new StructType(),
    rows: Seq[Row] = Nil,
    reads: Map[String, TableRead] = Map.empty,
    counts: Option[Map[String, Long]] = None,
    error: Option[String] = None
) {

  def sample(iteration: Int): Map[String, Any] = ListMap[String, Any](
    "query" -> query,
    "iteration" -> iteration,
    "started_ms" -> startedMs,
    "elapsed_ms" -> elapsedMs,
    "planning_ms" -> planningMs,
    "rows" -> rows.size,
    "status" -> (if (error.isEmpty) "ok" else "failed")
  ) ++ error.map("error" -> _) ++ Option.when(error.isEmpty)("reads" -> readsByTable) ++ counts.map("lake" -> _)

  def answer: Option[Map[String, Any]] = Option.when(error.isEmpty)(
    ListMap(
      "query" -> query,
      "columns" -> schema.fieldNames.toSeq,
      "types" -> schema.fields.toSeq.map(_.dataType.simpleString),
      "rows" -> rows.map(JsonValues.row)
    )
  )

  def line: String = error match {
    case None =>
      f"$query%-8s ${elapsedMs / 1000}%8.2f s  ${rows.size}%5d rows  ${reads.values.map(_.files).sum}%6d files"
    case Some(message) => f"$query%-8s ${elapsedMs / 1000}%8.2f s  failed: ${message.linesIterator.next()}"
  }

  private def readsByTable: Map[String, Any] = reads.toSeq
    .sortBy(_._1)
    .map { case (table, read) =>
      table -> ListMap("files" -> read.files, "bytes" -> read.bytes)
    }
    .to(ListMap)
}

private class QueryRun(spark: SparkSession, of: Int) {

  /** From the text of the query until all its rows are at the driver: parsing, planning, execution, collection. */
  def execute(query: Query, position: Int): Execution = {
    spark.sparkContext.setJobDescription(s"${query.name} ($position of $of)")
    val before = QueryRun.counts()
    val startedMs = System.currentTimeMillis()
    val started = System.nanoTime()
    def elapsed = (System.nanoTime() - started) / 1e6
    try {
      val frame = spark.sql(query.sql)
      frame.queryExecution.executedPlan
      val planning = elapsed
      val rows = frame.collect()
      val execution = Execution(query.name, startedMs, elapsed, Some(planning), frame.schema, rows.toSeq)
      execution.copy(
        reads = TableReads.of(frame.queryExecution.executedPlan),
        counts = for (was <- before; now <- QueryRun.counts()) yield QueryRun.since(was, now)
      )
    } catch {
      case NonFatal(error) =>
        val message = Option(error.getMessage).getOrElse(error.toString)
        Execution(query.name, startedMs, elapsed, error = Some(message))
    }
  }
}

private object QueryRun {

  private def since(before: Map[String, Long], now: Map[String, Long]): Map[String, Long] =
    now.collect {
      case (name, value) if value > before.getOrElse(name, 0L) => name -> (value - before.getOrElse(name, 0L))
    }

  // Plain Spark has no such class.
  private def counts(): Option[Map[String, Long]] =
    try ApplicationCounts.now()
    catch { case _: NoClassDefFoundError => None }
}
