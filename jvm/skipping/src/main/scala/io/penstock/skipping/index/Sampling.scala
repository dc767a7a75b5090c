package io.penstock.skipping.index

import org.apache.spark.sql.SparkSession

/** Looks at some of a table's files, to tell which columns are worth it. */
private[index] object Sampling {

  /** Enough to tell a clustered column from a scattered one; their footers cost little beside those of all files. */
  private val MaxFiles = 64

  /** How many files were looked at, and what they say. */
  def of(spark: SparkSession, table: IndexedTable, listed: Vector[ListedFile]): (Int, Seq[ColumnChoice.Sampled]) = {
    val columns = ColumnChoice.possible(table)
    val plan = columns.map(PlannedColumn(_, Set(Kind.MinMax, Kind.Values), ""))
    val entries = IndexBuilder.read(spark, table.root, evenly(listed), plan)
    val byValues = TableIndex.of(table.root.toString, columns, entries)
    val byBounds = TableIndex.of(table.root.toString, columns, entries.map(withoutLists))
    def share(index: TableIndex, column: IndexedColumn) = index.column(column.name).fold(1.0)(_.filesPerKey)
    val sampled = columns.map(column => ColumnChoice.Sampled(column, share(byBounds, column), share(byValues, column)))
    (entries.size, sampled)
  }

  /** From all partitions: files of one place resemble each other. */
  private[index] def evenly(listed: Vector[ListedFile]): Vector[ListedFile] = {
    val sorted = listed.sortBy(file => (file.directory, file.name))
    val count = math.min(MaxFiles, sorted.size)
    Vector.tabulate(count)(i => sorted((i.toLong * sorted.size / count).toInt))
  }

  private def withoutLists(entry: FileEntry): FileEntry =
    entry.copy(columns = entry.columns.map { case (name, column) => name -> column.copy(values = None) })
}
