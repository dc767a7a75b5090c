package io.penstock.skipping.plan

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.datasources.{FileIndex, FileStatusWithMetadata, PartitionDirectory}
import org.apache.spark.sql.types.StructType

import io.penstock.skipping.index.{ListedFiles, TableIndex}
import io.penstock.skipping.model.{FileFilter, FilterTranslator, RangeSet, SkippingCounters}

/**
 * What one scan's parts share from planning to listing: its file index drops the files, expressions among its filters
 * bring what is known at run time only. Lives in the driver.
 *
 * @param partitions
 *   the schema of the table's partitions
 * @param identity
 *   two are equal where they would skip the same files for the same reasons: plans are compared to be reused
 * @param verification
 *   to be told which files would have been skipped; then they are not
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

  /** Whether this is what the scan, without skipping, was when it was prepared. */
  def isOf(scan: SparkPlan): Boolean = identity.scan == scan.canonicalized

  /** Keys of a join are known: only files that may hold one of them are of use. */
  def publish(id: ExprId, column: String, values: RangeSet): Unit = synchronized {
    keys += id -> Published(column, values)
  }

  /** By which keys of joins files were skipped, each with its column, in the runs so far. */
  def joinKeys: Seq[(String, RangeSet)] = keys.values.toSeq.map(published => published.column -> published.values)

  /**
   * The scan is about to run.
   *
   * @param node
   *   told what was skipped
   * @param dataFilters
   *   whose subqueries will have been run when files are listed
   * @param partitionFilters
   *   likewise; the scan leaves out partitions by them after it has listed their files
   */
  def start(node: SkippedFilesExec, dataFilters: Seq[Expression], partitionFilters: Seq[Expression]): Unit =
    run = Some(Run(node, dataFilters, partitionFilters))

  /** What is left of the listing. Whatever goes wrong here, the query is answered from all the files. */
  def select(listed: Seq[PartitionDirectory], dataFilters: Seq[Expression]): Seq[PartitionDirectory] = {
    val started = System.nanoTime()
    val published = keys.values.toSeq
    try {
      val filter = FileFilter.and(
        filters.translate(dataFilters ++ run.toSeq.flatMap(_.dataFilters)) +: published.map(_.filter)
      )
      // Files that are not read for another reason are none that skipping saved.
      val (scanned, leftOut) = listed.partition(isScanned)
      val selection = FileSelection.of(index, filter, scanned)
      verification.foreach(_.set(selection.skipped))
      tell(selection, published.map(_.values.size.toLong).sum, System.nanoTime() - started)
      if (verification.isEmpty) selection.kept ++ leftOut else listed
    } catch {
      case NonFatal(e) =>
        logWarning(s"The skipping index of ${index.root} could not be asked: this scan reads all files", e)
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
 * The scan as it was without skipping, and the subqueries its keys come from. All canonical, columns told by their
 * place in the scan: the same scan in two copies of a view is one, and what is computed from it is computed once.
 */
case class ScanIdentity(scan: SparkPlan, keys: Seq[Expression])

/** A scan's file index without the files that cannot match. Equal to another one where the indexes inside are. */
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
 * What is left of a listing once the files that cannot match are taken out.
 *
 * @param kept
 *   to be read
 * @param skipped
 *   the index says that none of their rows matches
 */
case class FileSelection(kept: Seq[PartitionDirectory], skipped: Seq[FileStatusWithMetadata]) {
  lazy val files: Long = kept.map(_.files.size.toLong).sum + skipped.size
  lazy val bytes: Long = kept.map(_.files.map(_.getLen).sum).sum + bytesSkipped
  lazy val bytesSkipped: Long = skipped.map(_.getLen).sum
}

object FileSelection {

  /** A file that the index does not know as it is listed is kept. */
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
        // A partition whose files all go is as if it had been pruned; one that was empty before is none of ours.
        if (skip.isEmpty) Some(partition) else Option.when(keep.nonEmpty)(partition.copy(files = keep))
      }
      FileSelection(kept, skipped.result())
  }
}
