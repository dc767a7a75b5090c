package io.penstock.skipping.plan

import java.nio.file.attribute.FileTime
import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, AdaptiveSparkPlanHelper}
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.{DataFrame, Row}
import org.scalatest.Suite

import io.penstock.skipping.LocalSpark
import io.penstock.skipping.build.{IndexMaintenance, IndexedTable}
import io.penstock.skipping.index.TablePath

/** Small tables of several files with real indexes, and what their scans came to. */
trait IndexedTables extends LocalSpark with AdaptiveSparkPlanHelper { this: Suite =>

  /** A temporary view over `files` files, each of which holds a range of the column, and its index. */
  protected def indexed(name: String, rows: DataFrame, files: Int, by: String, columns: String*): Path = {
    val path = directory.resolve(name)
    rows.repartitionByRange(files, col(by)).write.parquet(path.toString)
    register(name, path, columns)
    path
  }

  protected def register(name: String, path: Path, columns: Seq[String]): Unit = {
    age(path)
    IndexMaintenance.build(spark, IndexedTable.at(spark, path.toString), Option.when(columns.nonEmpty)(columns))
    spark.read.parquet(path.toString).createOrReplaceTempView(name)
  }

  /** A file is trusted to be what it was indexed as once it is some seconds old. */
  protected def age(path: Path): Unit =
    dataFiles(path).foreach(Files.setLastModifiedTime(_, FileTime.fromMillis(1700000000000L)))

  protected def dataFiles(path: Path): Seq[Path] =
    Files
      .walk(path)
      .iterator
      .asScala
      .filter(file => file.toString.endsWith(".parquet") && !file.toString.contains(TablePath.IndexDirectory))
      .toSeq
      .sorted

  protected def withSettings[T](settings: (String, Any)*)(body: => T): T = {
    val former = settings.map { case (key, _) => key -> spark.conf.getOption(key) }
    settings.foreach { case (key, value) => spark.conf.set(key, value.toString) }
    try body
    finally
      former.foreach {
        case (key, Some(value)) => spark.conf.set(key, value)
        case (key, None) => spark.conf.unset(key)
      }
  }

  /** What is asked, answered without skipping. */
  protected def truth(sql: String): Set[Row] =
    withSettings("spark.penstock.skipping.enabled" -> false)(spark.sql(sql).collect().toSet)

  /** Runs a query, holds its answer against the truth, and returns the plan as it was run. */
  protected def run(sql: String): SparkPlan = {
    val expected = truth(sql)
    val query = spark.sql(sql)
    assert(query.collect().toSet == expected)
    query.queryExecution.executedPlan match {
      case adaptive: AdaptiveSparkPlanExec => adaptive.executedPlan
      case plan => plan
    }
  }

  protected def scans(plan: SparkPlan): Seq[FileSourceScanExec] =
    collectWithSubqueries(plan) { case scan: FileSourceScanExec => scan }

  /** Of the table's scans: files read, in the order of the plan. */
  protected def filesRead(plan: SparkPlan, table: String): Seq[Long] =
    scans(plan).filter(isOf(_, table)).map(_.metrics("numFiles").value)

  protected def isOf(scan: FileSourceScanExec, table: String): Boolean =
    scan.relation.location.rootPaths.exists(_.toString.contains(s"/$table"))

  /** The table's scans that skip files. */
  protected def skippingScans(plan: SparkPlan, table: String): Seq[SkippedFilesExec] =
    scans(plan).filter(isOf(_, table)).flatMap(_.subqueries).collect { case node: SkippedFilesExec => node }
}
