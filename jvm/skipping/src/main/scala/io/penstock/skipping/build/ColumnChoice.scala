package io.penstock.skipping.build

import java.util.Locale

import org.apache.spark.sql.SparkSession

import io.penstock.skipping.index.{FileEntry, Kind, LeftOut, ListedFile, PlannedColumn, TableIndex}
import io.penstock.skipping.model.{Domain, FileFilter, IndexedColumn, RangeSet}

/** The choice of an index's columns, with the reasons. Pure functions of a sample of the files. */
private[skipping] object ColumnChoice {

  case class Choice(plan: Seq[PlannedColumn], leftOut: Seq[LeftOut])

  /**
   * The selectivity of a column in a sample of the files.
   *
   * @param byBounds
   *   the share of files, 0 to 1, that may hold a value, by their bounds
   * @param byValues
   *   the same by value lists, where dictionaries provide them
   * @param asked
   *   the same for the queries of the past, if there are any
   */
  case class Sampled(column: IndexedColumn, byBounds: Double, byValues: Double, asked: Option[SampledQuestions] = None)

  /** Scans of the past, and the mean shares of files, 0 to 1, that may match them. */
  case class SampledQuestions(scans: Long, byBounds: Double, byValues: Double)

  /** The columns of a table that an index can cover. */
  def possible(table: IndexedTable): Seq[IndexedColumn] =
    table.columns.filter(field => Domain.of(field.dataType).isDefined).map(f => IndexedColumn(f.name, f.dataType))

  /**
   * The choice of these columns. Throws an `IllegalArgumentException` where the files lack one, or it has no domain.
   */
  def requested(table: IndexedTable, names: Seq[String], kinds: Set[Kind]): Choice = {
    val plan = names.map(name => PlannedColumn(requested(table, name), kinds + Kind.MinMax, "requested")).distinct
    val others = table.columns.filterNot(field => plan.exists(_.column.name == field.name))
    Choice(plan, others.map(field => LeftOut(field.name, "not requested")))
  }

  private def requested(table: IndexedTable, name: String): IndexedColumn = {
    val field = table.columns
      .find(_.name == name)
      .orElse(table.columns.find(_.name.equalsIgnoreCase(name)))
      .getOrElse(
        throw new IllegalArgumentException(
          s"The files of ${table.name} have no column $name: say one of ${table.columns.map(_.name).mkString(", ")}"
        )
      )
    if (Domain.of(field.dataType).isEmpty)
      throw new IllegalArgumentException(
        s"Column ${field.name} of ${table.name} cannot be indexed, since ${noDomain(field.dataType.sql)}: leave it out"
      )
    IndexedColumn(field.name, field.dataType)
  }

  /**
   * The columns that are worth an index. A clustered column (few files hold a given value) is worth its bounds, and a
   * column with few values in each file their lists; so is one for which this holds only for the queries of the past.
   * Any other column would skip nothing.
   *
   * @param kinds
   *   the kinds of statistics of all chosen columns; None: those that each is worth
   * @param worth
   *   the greatest share of files that may hold a value of a column that is worth it
   */
  def automatic(
      table: IndexedTable,
      sampledFiles: Int,
      sampled: Seq[Sampled],
      kinds: Option[Set[Kind]],
      worth: Double
  ): Choice = {
    val judged = sampled.map(column => judge(column, sampledFiles, worth))
    val plan = judged.collect { case Right(chosen) =>
      chosen.copy(kinds = kinds.fold(chosen.kinds)(_ + Kind.MinMax))
    }
    val scattered = judged.collect { case Left(left) => left }
    val impossible = table.columns
      .filter(field => Domain.of(field.dataType).isEmpty)
      .map(field => LeftOut(field.name, noDomain(field.dataType.sql)))
    Choice(plan, scattered ++ impossible)
  }

  private def judge(sampled: Sampled, files: Int, worth: Double): Either[LeftOut, PlannedColumn] = {
    import sampled._
    val (bounds, lists) = (Set[Kind](Kind.MinMax), Set[Kind](Kind.MinMax, Kind.Values))
    val seen = s"of $files sampled files"
    def chosen(kinds: Set[Kind], why: String, asked: Option[Double] = None) =
      Right(PlannedColumn(column, kinds, why, asked))
    def forWhatIsAsked(questions: SampledQuestions): Option[Either[LeftOut, PlannedColumn]] = {
      def why(share: Double) =
        s"queried: $seen, ${percent(share)} may match ${questions.scans} recorded scans, " +
          s"${percent(byValues.min(byBounds))} may hold a given value"
      if (questions.byBounds <= worth) Some(chosen(bounds, why(questions.byBounds), Some(questions.byBounds)))
      else if (questions.byValues <= worth) Some(chosen(lists, why(questions.byValues), Some(questions.byValues)))
      else None
    }
    if (files < 2) chosen(bounds, s"$files files are too few to tell what is worth it")
    else if (byBounds <= worth) chosen(bounds, s"clustered: $seen, ${percent(byBounds)} may hold a given value")
    else if (byValues <= worth) {
      val why = s"few values in each file: $seen, ${percent(byValues)} hold a given value by their lists, " +
        s"${percent(byBounds)} by their bounds"
      chosen(lists, why)
    } else
      asked.flatMap(forWhatIsAsked).getOrElse {
        Left(LeftOut(column.name, s"scattered: $seen, ${percent(byValues.min(byBounds))} may hold a given value"))
      }
  }

  private def noDomain(sqlType: String) = s"nothing sound or useful can be recorded of values of type $sqlType"

  private def percent(share: Double): String = "%.0f %%".formatLocal(Locale.ROOT, share * 100)
}

/** A condition of past queries on a column: `scans` scans each read the files with a value in this set. */
case class Asked(column: String, scans: Long, keys: RangeSet)

/** A sample of a table's files. */
private[skipping] object Sampling {

  /**
   * A sample that distinguishes a clustered column from a scattered one; its footers cost little beside those of all
   * files.
   */
  private val MaxFiles = 64

  /** The number of sampled files, and the selectivity of each column in them, also for the queries of the past. */
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

  /** The mean share of files that may match, over all scans. */
  private def shareAsked(index: TableIndex, questions: Seq[Asked]): Double = {
    val held = questions.map { asked =>
      asked.scans.toDouble * index.select(FileFilter.among(asked.column, asked.keys)).cardinality
    }
    held.sum / (questions.map(_.scans).sum.toDouble * index.files)
  }

  /** Files of all partitions, since those of one partition resemble each other. */
  private[skipping] def evenly(listed: Vector[ListedFile]): Vector[ListedFile] = {
    val sorted = listed.sortBy(file => (file.directory, file.name))
    val count = math.min(MaxFiles, sorted.size)
    Vector.tabulate(count)(i => sorted((i.toLong * sorted.size / count).toInt))
  }

  private def withoutLists(entry: FileEntry): FileEntry =
    entry.copy(columns = entry.columns.map { case (name, column) => name -> column.copy(values = None) })
}
