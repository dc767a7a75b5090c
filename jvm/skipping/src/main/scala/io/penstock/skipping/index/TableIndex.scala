package io.penstock.skipping.index

import java.nio.charset.StandardCharsets.UTF_8
import java.util.{Arrays, BitSet, HashMap => JavaHashMap}

import scala.collection.mutable

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata

import io.penstock.skipping.model.{FileFilter, IndexedColumn}

/** The index of one table in the driver's memory: files are numbered from 0. Immutable; shared by all queries. */
trait TableIndex {

  /** The table's root, a URI without a slash at its end; entries' directories are relative to it. */
  def root: String

  def files: Int

  def columns: Seq[IndexedColumn]

  /** The summary of a column in all files, estimated at the first call; None where the index does not cover it. */
  def column(name: String): Option[ColumnSummary]

  /**
   * The number of a listed file; -1 where the index does not have its present version (never indexed, or of another
   * length or modification time).
   */
  def find(directory: String, name: String, length: Long, modificationMs: Long): Int

  /** The files that may hold a row for which the filter is true; all others hold none. The caller owns the set. */
  def select(filter: FileFilter): BitSet
}

object TableIndex {

  /**
   * An index of these entries. The last of several entries for one path counts. Statistics of a column that is not
   * among `columns`, or of another domain, are ignored.
   *
   * @param asked
   *   by column: the share of files, 0 to 1, that may match the queries of the past
   */
  def of(
      root: String,
      columns: Seq[IndexedColumn],
      entries: IterableOnce[FileEntry],
      asked: Map[String, Double] = Map.empty
  ): TableIndex = {
    val numbers = new FileDirectory.Builder
    val statistics = columns.map(column => column -> new ColumnStatistics.Builder(column))
    entries.iterator.foreach { entry =>
      numbers.add(entry)
      statistics.foreach { case (column, builder) => builder.add(entry.rows, entry.columns.get(column.name)) }
    }
    val results = statistics.map { case (column, builder) => column -> builder.result() }
    new InMemoryIndex(root, numbers.result(), results, asked)
  }
}

/**
 * A scan of another table format that knows the statistics of its files without an index beside the table, as Iceberg's
 * manifests have them. It reads one version of its table, so that a second run reads the same rows.
 *
 * Spark hands keys to `filter` when the scan is about to run, and then asks for the remaining files. So the scan of a
 * physical plan is an object of its own, and one in a logical plan, which copies share, is never filtered.
 */
trait IndexedScan extends SupportsRuntimeV2Filtering {

  /** The statistics of the files that the scan's own filters left. */
  def index: TableIndex

  /** The size of these files. */
  def sizeInBytes: Long

  /**
   * The scan of one physical plan.
   *
   * @param reasons
   *   why files are skipped by keys or not, for its description
   * @param verification
   *   in `verify` mode: receives the files that would be skipped, and none is
   */
  def planned(reasons: Seq[String], verification: Option[SkippedPaths]): IndexedScan

  /** The verification of a physical plan's scan. */
  def verification: Option[SkippedPaths]
}

/**
 * The files that a scan would have skipped, as `input_file_name()` calls them. The driver fills it before tasks are
 * serialized with it.
 */
class SkippedPaths extends Serializable {
  @volatile private var paths = Set.empty[String]

  def set(skipped: Set[String]): Unit = paths = skipped

  def contains(path: String): Boolean = paths(path)
}

/**
 * The selectivity of an indexed column, for the benefit model.
 *
 * @param filesPerKey
 *   the mean share of files, 0 to 1, that may hold a random value of the column, or that may match the queries of the
 *   past if they are fewer; near 1, skipping by it is pointless
 * @param bounded
 *   the number of files whose minimum and maximum are known
 */
case class ColumnSummary(column: IndexedColumn, filesPerKey: Double, bounded: Int)

/** An index of arrays over the files' numbers: one structure of arrays for each column. */
private[skipping] class InMemoryIndex(
    override val root: String,
    numbers: FileDirectory,
    statistics: Seq[(IndexedColumn, ColumnStatistics)],
    asked: Map[String, Double]
) extends TableIndex {

  private val byName = statistics.map { case (column, ofColumn) => column.name -> ofColumn }.toMap

  override val columns: Seq[IndexedColumn] = statistics.map(_._1)

  override def files: Int = numbers.size

  override def column(name: String): Option[ColumnSummary] =
    columns.find(_.name == name).map { column =>
      val ofColumn = byName(name)
      ColumnSummary(column, ofColumn.filesPerKey.min(asked.getOrElse(name, 1.0)), ofColumn.bounded)
    }

  override def find(directory: String, name: String, length: Long, modificationMs: Long): Int =
    numbers.find(directory, name, length, modificationMs)

  override def select(filter: FileFilter): BitSet = {
    val all = new BitSet(files)
    all.set(0, files)
    select(filter, all)
  }

  /** The candidates that may match; the argument stays unchanged. */
  private def select(filter: FileFilter, candidates: BitSet): BitSet = filter match {
    case FileFilter.Anything => candidates
    case FileFilter.Nothing => new BitSet
    case FileFilter.Among(column, keys) => ask(column, candidates)(_.among(keys, candidates))
    case FileFilter.IsNull(column) => ask(column, candidates)(_.withNulls(candidates))
    case FileFilter.IsNotNull(column) => ask(column, candidates)(_.withValues(candidates))
    // Later parts need not test files that an earlier one has excluded.
    case FileFilter.And(parts) => parts.foldLeft(candidates)((left, part) => select(part, left))
    case FileFilter.Or(parts) =>
      parts.foldLeft(new BitSet) { (found, part) =>
        val left = candidates.clone().asInstanceOf[BitSet]
        left.andNot(found)
        val more = select(part, left)
        more.or(found)
        more
      }
  }

  private def ask(column: String, candidates: BitSet)(question: ColumnStatistics => BitSet): BitSet =
    byName.get(column).fold(candidates)(question)
}

/**
 * An index that reads its entries at the first call that needs them: until then it has the manifest only. A query that
 * filters by none of its columns does not wait for the entries.
 *
 * @param files
 *   the number of entries in the manifest
 * @param read
 *   reads the entries, called once; None where they are unusable: then no file has an entry
 */
private[skipping] class DeferredIndex(
    override val root: String,
    override val columns: Seq[IndexedColumn],
    override val files: Int,
    private var read: () => Option[TableIndex]
) extends TableIndex {

  @volatile private var known = Option.empty[Option[TableIndex]]

  def isLoaded: Boolean = known.isDefined

  /** Read the entries, once; concurrent callers wait. */
  def load(): Option[TableIndex] = known.getOrElse(synchronized {
    known.getOrElse {
      val index = read()
      known = Some(index)
      // The function holds a whole configuration.
      read = null
      index
    }
  })

  override def column(name: String): Option[ColumnSummary] =
    if (columns.exists(_.name == name)) load().flatMap(_.column(name)) else None

  override def find(directory: String, name: String, length: Long, modificationMs: Long): Int =
    load().fold(-1)(_.find(directory, name, length, modificationMs))

  override def select(filter: FileFilter): BitSet = load().fold(all)(_.select(filter))

  private def all: BitSet = {
    val every = new BitSet(files)
    every.set(0, files)
    every
  }
}

/**
 * The numbers of files by path. An open-addressed table over one array of all names, since a map of strings would take
 * several times the memory of the statistics.
 */
private[skipping] class FileDirectory private (
    directories: JavaHashMap[String, Int],
    directoryOf: Array[Int],
    names: Array[Byte],
    nameEnds: Array[Int],
    lengths: Array[Long],
    modified: Array[Long]
) {

  val size: Int = lengths.length

  private val table = {
    // At most half full: a power of two, so that a mask takes the place of a division.
    val slots = Array.fill(math.max(2, Integer.highestOneBit(math.max(1, size)) << 2))(-1)
    for (file <- 0 until size) {
      var slot = FileDirectory.hash(directoryOf(file), names, nameStart(file), nameEnds(file)) & (slots.length - 1)
      while (slots(slot) >= 0 && !samePath(slots(slot), file)) slot = (slot + 1) & (slots.length - 1)
      slots(slot) = file
    }
    slots
  }

  def find(directory: String, name: String, length: Long, modificationMs: Long): Int =
    directories.getOrDefault(directory, -1) match {
      case -1 => -1
      case number =>
        val bytes = name.getBytes(UTF_8)
        var slot = FileDirectory.hash(number, bytes, 0, bytes.length) & (table.length - 1)
        while (table(slot) >= 0 && !isAt(table(slot), number, bytes, 0, bytes.length))
          slot = (slot + 1) & (table.length - 1)
        val file = table(slot)
        if (file >= 0 && lengths(file) == length && modified(file) == modificationMs) file else -1
    }

  private def nameStart(file: Int): Int = if (file == 0) 0 else nameEnds(file - 1)

  private def samePath(a: Int, b: Int): Boolean = isAt(a, directoryOf(b), names, nameStart(b), nameEnds(b))

  private def isAt(file: Int, directory: Int, name: Array[Byte], start: Int, end: Int): Boolean =
    directoryOf(file) == directory && Arrays.equals(names, nameStart(file), nameEnds(file), name, start, end)
}

private[skipping] object FileDirectory {

  class Builder {
    private val directories = new JavaHashMap[String, Int]
    private val directoryOf = new mutable.ArrayBuilder.ofInt
    private val names = new mutable.ArrayBuilder.ofByte
    private val nameEnds = new mutable.ArrayBuilder.ofInt
    private val lengths = new mutable.ArrayBuilder.ofLong
    private val modified = new mutable.ArrayBuilder.ofLong

    def add(entry: FileEntry): Unit = {
      directoryOf += directories.computeIfAbsent(entry.directory, _ => directories.size)
      names ++= entry.name.getBytes(UTF_8)
      nameEnds += names.length
      lengths += entry.length
      modified += entry.modificationMs
    }

    def result(): FileDirectory =
      new FileDirectory(
        directories,
        directoryOf.result(),
        names.result(),
        nameEnds.result(),
        lengths.result(),
        modified.result()
      )
  }

  private def hash(directory: Int, name: Array[Byte], start: Int, end: Int): Int = {
    var hash = directory
    var i = start
    while (i < end) {
      hash = 31 * hash + name(i)
      i += 1
    }
    // The low bits choose the slot: mix the high ones into them.
    hash ^ (hash >>> 15)
  }
}

/**
 * The numbers of a listing's files in an index. A listing comes directory by directory, so this remembers the last one,
 * and belongs to one thread.
 */
private[skipping] class ListedFiles(index: TableIndex) {

  private val root = index.root
  private var lastParent: Path = _
  private var lastDirectory: Option[String] = None

  /**
   * The file's number; -1 where it is outside of the table's root, or where the index does not have its present
   * version.
   */
  def number(file: FileStatusWithMetadata): Int = directory(file.getPath.getParent).fold(-1) { directory =>
    index.find(directory, file.getPath.getName, file.getLen, file.getModificationTime)
  }

  private def directory(parent: Path): Option[String] = {
    if (parent != lastParent) {
      lastParent = parent
      lastDirectory = TablePath.relative(root, parent.toString)
    }
    lastDirectory
  }
}
