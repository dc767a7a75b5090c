package io.penstock.fs.scan

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.{ColumnarRule, FileSourceScanExec, SparkPlan}
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}

import io.penstock.fs.PenstockFileSystem
import io.penstock.fs.read.ScannedFile

/**
 * Spark's Parquet, whose readers tell the file system the driver's listing of each file. Without it every file that is
 * opened is asked for once more: `HadoopInputFile.fromPath` begins with `getFileStatus`.
 */
final class ListedParquet extends ParquetFileFormat {

  override def buildReaderWithPartitionValues(
      session: SparkSession,
      dataSchema: StructType,
      partitionSchema: StructType,
      requiredSchema: StructType,
      filters: Seq[Filter],
      options: Map[String, String],
      conf: Configuration
  ): PartitionedFile => Iterator[InternalRow] = ListedParquet.withListings(
    super.buildReaderWithPartitionValues(
      session,
      dataSchema,
      partitionSchema,
      requiredSchema,
      filters,
      options,
      conf
    )
  )
}

private object ListedParquet {

  /** A file is opened, and its footer read, before its rows are asked for. */
  def withListings(read: PartitionedFile => Iterator[InternalRow]): PartitionedFile => Iterator[InternalRow] = file =>
    // Whoever makes such a file by hand may leave these out.
    if (file.fileSize <= 0 || file.modificationTime <= 0) read(file)
    else ScannedFile.opening(ScannedFile(file.toPath, file.fileSize, file.modificationTime))(read(file))
}

/**
 * Scans of Parquet open files by their listing, without a request for each:
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
