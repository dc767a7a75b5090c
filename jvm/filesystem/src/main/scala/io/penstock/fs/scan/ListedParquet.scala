package io.penstock.fs.scan

import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.{ColumnarRule, FileSourceScanExec, SparkPlan}
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}

import io.penstock.fs.PenstockFileSystem

/**
 * Spark's Parquet, whose readers tell the file system the driver's listing of each file. Without it every
 * file that is opened is asked for once more: `HadoopInputFile.fromPath` begins with `getFileStatus`.
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

/** The listing of a file, as a scan received it. `modified` is in milliseconds since 1970. */
final private[fs] case class ScannedFile(path: Path, length: Long, modified: Long)

/** The file that a thread is opening for a scan: whoever opens it asks for its status, which the scan has already. */
private[fs] object ScannedFile {

  /** So many are never about to be opened at once: what is more was asked for and never opened. */
  private val MostAwaited = 10000

  private val current = new ThreadLocal[ScannedFile]
  private val awaited = ConcurrentHashMap.newKeySet[ScannedFile]()

  def opening[A](file: ScannedFile)(open: => A): A = {
    current.set(file)
    try open
    finally current.remove()
  }

  def at(path: Path): Option[ScannedFile] = Option(current.get).filter(_.path == path)

  /** A status was made of it: S3A opens the file in another thread, by a status of its own making. */
  def await(file: ScannedFile): Unit = {
    if (awaited.size >= MostAwaited) awaited.clear()
    awaited.add(file)
    ()
  }

  /** Whether this is the opening of a file that was awaited. */
  def isAwaited(file: ScannedFile): Boolean = awaited.remove(file)

  private[scan] def waiting: Int = awaited.size
}
