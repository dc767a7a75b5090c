package io.penstock.skipping.index

import java.util.BitSet

import io.penstock.skipping.filter.FileFilter

/** Arrays over the files' numbers: one structure of arrays for each column. */
private[index] class InMemoryIndex(
    override val root: String,
    numbers: FileNumbers,
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

  /** Those of the candidates, which are left as they are, that may match. */
  private def select(filter: FileFilter, candidates: BitSet): BitSet = filter match {
    case FileFilter.Anything => candidates
    case FileFilter.Nothing => new BitSet
    case FileFilter.Among(column, keys) => ask(column, candidates)(_.among(keys, candidates))
    case FileFilter.IsNull(column) => ask(column, candidates)(_.withNulls(candidates))
    case FileFilter.IsNotNull(column) => ask(column, candidates)(_.withValues(candidates))
    // What one part has dropped, the next ones need not look at.
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
