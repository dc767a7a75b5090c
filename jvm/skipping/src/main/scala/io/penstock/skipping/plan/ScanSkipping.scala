package io.penstock.skipping.plan

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.datasources.PartitionDirectory
import org.apache.spark.sql.types.StructType

import io.penstock.skipping.SkippingCounters
import io.penstock.skipping.filter.{FileFilter, Keys, StaticFilters}
import io.penstock.skipping.index.TableIndex

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
    filters: StaticFilters,
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
  def publish(id: ExprId, column: String, values: Keys): Unit = synchronized {
    keys += id -> Published(column, values)
  }

  /** By which keys of joins files were skipped, each with its column, in the runs so far. */
  def joinKeys: Seq[(String, Keys)] = keys.values.toSeq.map(published => published.column -> published.values)

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
  private case class Published(column: String, values: Keys) {
    def filter: FileFilter = FileFilter.among(column, values)
  }

  private case class Run(node: SkippedFilesExec, dataFilters: Seq[Expression], partitionFilters: Seq[Expression])
}

/**
 * The scan as it was without skipping, and the subqueries its keys come from. All canonical, columns told by their
 * place in the scan: the same scan in two copies of a view is one, and what is computed from it is computed once.
 */
case class ScanIdentity(scan: SparkPlan, keys: Seq[Expression])
