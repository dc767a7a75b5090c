package io.penstock.skipping.index

import java.util.BitSet

import io.penstock.skipping.filter.FileFilter

/** The index of one table in the driver's memory: files are numbered from 0. Immutable; shared by all queries. */
trait TableIndex {

  /** The table's root, a URI without a slash at its end; entries' directories are relative to it. */
  def root: String

  def files: Int

  def columns: Seq[IndexedColumn]

  /** What is known of the column as a whole: estimated when it is first asked for. */
  def column(name: String): Option[ColumnSummary]

  /**
   * The number of a listed file; -1 where the index does not know it as it is now (never indexed, of another length or
   * modification time).
   */
  def find(directory: String, name: String, length: Long, modificationMs: Long): Int

  /** The files that may hold a row for which the filter is true; all others hold none. */
  def select(filter: FileFilter): BitSet
}

object TableIndex {

  /**
   * An index of these entries. The last of several entries for one path is the one that is found. What an entry has
   * that is not among `columns`, or not of its column's domain, is as good as unknown.
   *
   * @param asked
   *   of columns: the share of files that may hold what was asked of them before
   */
  def of(
      root: String,
      columns: Seq[IndexedColumn],
      entries: IterableOnce[FileEntry],
      asked: Map[String, Double] = Map.empty
  ): TableIndex = {
    val numbers = new FileNumbers.Builder
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
 * What the benefit model asks about an indexed column.
 *
 * @param filesPerKey
 *   the mean share of files, 0 to 1, that may hold a value drawn from the column, or what queries asked of it where
 *   that is in fewer: near 1 says that skipping by it is pointless
 * @param bounded
 *   files whose minimum and maximum are known
 */
case class ColumnSummary(column: IndexedColumn, filesPerKey: Double, bounded: Int)
