package io.penstock.skipping.index

import org.apache.spark.sql.SparkSession

import io.penstock.skipping.filter.FileFilter

/** Looks at some of a table's files, to tell which columns are worth it. */
private[index] object Sampling {

  /** Enough to tell a clustered column from a scattered one; their footers cost little beside those of all files. */
  private val MaxFiles = 64

  /** How many files were looked at, and what they say, also of what was asked of the table before. */
  def of(
      spark: SparkSession,
      table: IndexedTable,
      listed: Vector[ListedFile],
      asked: Seq[Asked]
  ): (Int, Seq[ColumnChoice.Sampled]) = {
    val columns = ColumnChoice.possible(table)
    val plan = columns.map(PlannedColumn(_, Set(Kind.MinMax, Kind.Values), ""))
    val entries = IndexBuilder.read(spark, table.root, evenly(listed), plan)
    val byValues = TableIndex.of(table.root.toString, columns, entries)
    val byBounds = TableIndex.of(table.root.toString, columns, entries.map(withoutLists))
    def share(index: TableIndex, column: IndexedColumn) = index.column(column.name).fold(1.0)(_.filesPerKey)
    val sampled = columns.map { column =>
      val questions = asked.filter(_.column == column.name)
      val ofThese = Option.when(questions.nonEmpty && entries.nonEmpty) {
        val scans = questions.map(_.scans).sum
        ColumnChoice.SampledQuestions(scans, shareAsked(byBounds, questions), shareAsked(byValues, questions))
      }
      ColumnChoice.Sampled(column, share(byBounds, column), share(byValues, column), ofThese)
    }
    (entries.size, sampled)
  }

  /** The mean share of files that may hold what was asked for, over all scans. */
  private def shareAsked(index: TableIndex, questions: Seq[Asked]): Double = {
    val held = questions.map { asked =>
      asked.scans.toDouble * index.select(FileFilter.among(asked.column, asked.keys)).cardinality
    }
    held.sum / (questions.map(_.scans).sum.toDouble * index.files)
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
