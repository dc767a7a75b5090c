package io.penstock.skipping.plan

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging
import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.datasources.{FileIndex, FileStatusWithMetadata, PartitionDirectory}
import org.apache.spark.sql.types.StructType

import io.penstock.skipping.index.{ListedFiles, SkippedPaths, TableIndex}
import io.penstock.skipping.model.{FileFilter, FilterTranslator, RangeSet, SkippingCounters}

/**
 * The state that the parts of one scan share from planning to listing: its file index drops files, and expressions
 * among its filters bring the values that are known only at run time. It lives in the driver and is thread-safe.
 *
 * @param partitions
 *   the schema of the table's partitions
 * @param identity
 *   equal for scans that would skip the same files for the same reasons, since Spark compares plans for reuse
 * @param verification
 *   in `verify` mode: receives the files that would be skipped, and none is
 */
final class ScanSkipping(
    index: TableIndex,
    filters: FilterTranslator,
    partitions: StructType,
    private val identity: ScanIdentity,
    val verification: Option[SkippedPaths]
) extends Logging {

  import ScanSkipping._

  @volatile private var keys = Map.empty[ExprId, Published]
  @volatile private var run = Option.empty[Run]

  /** Whether the scan without skipping is the one that this was prepared for. */
  def isOf(scan: SparkPlan): Boolean = identity.scan == scan.canonicalized

  /** Add the keys of a join: the scan then needs only files that may hold one of them. */
  def publish(id: ExprId, column: String, values: RangeSet): Unit = synchronized {
    keys += id -> Published(column, values)
  }

  /** The keys of joins by which runs so far have skipped files, each with its column. */
  def joinKeys: Seq[(String, RangeSet)] = keys.values.toSeq.map(published => published.column -> published.values)

  /**
   * Prepare a run of the scan.
   *
   * @param node
   *   the node for the metrics
   * @param dataFilters
   *   filters whose subqueries have run when files are listed
   * @param partitionFilters
   *   the same for partitions, which the scan drops after it has listed their files
   */
  def start(node: SkippedFilesExec, dataFilters: Seq[Expression], partitionFilters: Seq[Expression]): Unit =
    run = Some(Run(node, dataFilters, partitionFilters))

  /** The listing without the files that cannot match. Never throws: after any failure the scan reads all files. */
  def select(listed: Seq[PartitionDirectory], dataFilters: Seq[Expression]): Seq[PartitionDirectory] = {
    val started = System.nanoTime()
    val published = keys.values.toSeq
    try {
      val filter = FileFilter.and(
        filters.translate(dataFilters ++ run.toSeq.flatMap(_.dataFilters)) +: published.map(_.filter)
      )
      // Files of partitions that the scan drops anyway do not count as skipped.
      val (scanned, leftOut) = listed.partition(isScanned)
      val selection = FileSelection.of(index, filter, scanned)
      verification.foreach(_.set(selection.skipped.map(file => SparkPath.fromPath(file.getPath).urlEncoded).toSet))
      tell(selection, published.map(_.values.size.toLong).sum, System.nanoTime() - started)
      if (verification.isEmpty) selection.kept ++ leftOut else listed
    } catch {
      case NonFatal(e) =>
        logWarning(s"The skipping index of ${index.root} could not be used: this scan reads all files", e)
        listed
    }
  }

  private def isScanned: PartitionDirectory => Boolean =
    run.map(_.partitionFilters).filter(_.nonEmpty).fold((_: PartitionDirectory) => true) { partitionFilters =>
      val bound = partitionFilters.reduce(And).transform { case attribute: AttributeReference =>
        val place = partitions.indexWhere(_.name == attribute.name)
        BoundReference(place, partitions(place).dataType, nullable = true)
      }
      val predicate = Predicate.createInterpreted(bound)
      partition => predicate.eval(partition.values)
    }

  private def tell(selection: FileSelection, intervals: Long, nanos: Long): Unit = run.foreach { run =>
    run.node.record(selection, intervals, nanos)
    SkippingCounters.scanned(selection.files, selection.skipped.size, selection.bytes, selection.bytesSkipped, nanos)
  }

  override def equals(other: Any): Boolean = other match {
    case that: ScanSkipping => identity == that.identity
    case _ => false
  }

  override def hashCode(): Int = identity.hashCode
}

object ScanSkipping {
  private case class Published(column: String, values: RangeSet) {
    def filter: FileFilter = FileFilter.among(column, values)
  }

  private case class Run(node: SkippedFilesExec, dataFilters: Seq[Expression], partitionFilters: Seq[Expression])
}

/**
 * The identity of a skipping scan: the scan without skipping, and the subqueries of its keys, in canonical form with
 * columns by their positions. Two copies of a view have equal scans, so that Spark computes them once.
 */
case class ScanIdentity(scan: SparkPlan, keys: Seq[Expression])

/** A scan's file index without the files that cannot match. Its equality is that of the inner indexes. */
class SkippingFileIndex(val inner: FileIndex, val skipping: ScanSkipping) extends FileIndex {

  override def listFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] =
    skipping.select(inner.listFiles(partitionFilters, dataFilters), dataFilters)

  override def rootPaths: Seq[Path] = inner.rootPaths
  override def inputFiles: Array[String] = inner.inputFiles
  override def refresh(): Unit = inner.refresh()
  override def sizeInBytes: Long = inner.sizeInBytes
  override def partitionSchema: StructType = inner.partitionSchema
  override def metadataOpsTimeNs: Option[Long] = inner.metadataOpsTimeNs

  override def equals(other: Any): Boolean = other match {
    case that: SkippingFileIndex => inner == that.inner
    case _ => false
  }

  override def hashCode(): Int = inner.hashCode
}

/**
 * A listing, split into files to read and files to skip.
 *
 * @param kept
 *   the partitions with the files to read
 * @param skipped
 *   the files without a matching row, by the index
 */
case class FileSelection(kept: Seq[PartitionDirectory], skipped: Seq[FileStatusWithMetadata]) {
  lazy val files: Long = kept.map(_.files.size.toLong).sum + skipped.size
  lazy val bytes: Long = kept.map(_.files.map(_.getLen).sum).sum + bytesSkipped
  lazy val bytesSkipped: Long = skipped.map(_.getLen).sum
}

object FileSelection {

  /** Split a listing by the index. A file whose listed version has no entry is kept. */
  def of(index: TableIndex, filter: FileFilter, listed: Seq[PartitionDirectory]): FileSelection = filter match {
    case FileFilter.Anything => FileSelection(listed, Nil)
    case _ =>
      val matching = index.select(filter)
      val listedFiles = new ListedFiles(index)
      val skipped = Seq.newBuilder[FileStatusWithMetadata]
      val kept = listed.flatMap { partition =>
        val (keep, skip) = partition.files.partition { file =>
          val number = listedFiles.number(file)
          number < 0 || matching.get(number)
        }
        skipped ++= skip
        // A partition without remaining files counts as pruned; one that was empty before stays.
        if (skip.isEmpty) Some(partition) else Option.when(keep.nonEmpty)(partition.copy(files = keep))
      }
      FileSelection(kept, skipped.result())
  }
}
