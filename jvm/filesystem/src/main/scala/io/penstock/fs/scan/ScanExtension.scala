package io.penstock.fs.scan

import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.{ColumnarRule, FileSourceScanExec, SparkPlan}
import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}

import io.penstock.fs.PenstockFileSystem

/**
 * Scans of Parquet open files by what their listing told, without a request for each:
 * `spark.sql.extensions=io.penstock.fs.scan.ScanExtension`.
 */
final class ScanExtension extends (SparkSessionExtensions => Unit) {

  override def apply(extensions: SparkSessionExtensions): Unit =
    extensions.injectColumnar(new ListedScans(_))
}

/** Idle where S3A is another class than ours, which would not ask. */
final private class ListedScans(session: SparkSession) extends ColumnarRule {

  private lazy val isOurs =
    session.sparkContext.hadoopConfiguration.get("fs.s3a.impl") == classOf[PenstockFileSystem].getName

  override def preColumnarTransitions: Rule[SparkPlan] = if (isOurs) ListedFormats else super.preColumnarTransitions
}

private object ListedFormats extends Rule[SparkPlan] {

  // To Spark every Parquet format equals every other, and what equals the old plan is thrown away.
  private val Mark = "penstock.listed" -> "true"

  override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    // Another class that extends Spark's has reasons of its own.
    case scan: FileSourceScanExec if scan.relation.fileFormat.getClass == classOf[ParquetFileFormat] =>
      val relation = scan.relation
      val options = relation.options + Mark
      scan.copy(relation = relation.copy(fileFormat = new ListedParquet, options = options)(relation.sparkSession))
  }
}
