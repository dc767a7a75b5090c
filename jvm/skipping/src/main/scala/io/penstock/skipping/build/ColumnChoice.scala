package io.penstock.skipping.build

import java.util.Locale

import org.apache.spark.sql.SparkSession

import io.penstock.skipping.index.{FileEntry, Kind, LeftOut, ListedFile, PlannedColumn, TableIndex}
import io.penstock.skipping.model.{Domain, FileFilter, IndexedColumn, RangeSet}

/** Which columns an index covers, and why. Pure: it is given what a sample of the files says. */
private[skipping] object ColumnChoice {

  case class Choice(plan: Seq[PlannedColumn], leftOut: Seq[LeftOut])

  /**
   * What a sample of the files says of a column.
   *
   * @param byBounds
   *   the share of files, 0 to 1, that may hold a value, as their bounds tell
   * @param byValues
   *   likewise, as value lists tell where dictionaries give them
   * @param asked
   *   what queries asked of it, where they are known to have
   */
  case class Sampled(column: IndexedColumn, byBounds: Double, byValues: Double, asked: Option[SampledQuestions] = None)

  /** So many scans, and the mean share of files, 0 to 1, that may hold what they asked for, as above. */
  case class SampledQuestions(scans: Long, byBounds: Double, byValues: Double)

  /** Of a table's columns, those that can be indexed. */
  def possible(table: IndexedTable): Seq[IndexedColumn] =
    table.columns.filter(field => Domain.of(field.dataType).isDefined).map(f => IndexedColumn(f.name, f.dataType))

  /** These columns. Throws an `IllegalArgumentException` where the files have no such column, or it has no domain. */
  def requested(table: IndexedTable, names: Seq[String], kinds: Set[Kind]): Choice = {
    val plan = names.map(name => PlannedColumn(requested(table, name), kinds + Kind.MinMax, "asked for")).distinct
    val others = table.columns.filterNot(field => plan.exists(_.column.name == field.name))
    Choice(plan, others.map(field => LeftOut(field.name, "not asked for")))
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
   * The columns worth it. A column that is clustered (few files hold a given value) is worth its bounds, one of whose
   * values each file holds few is worth their lists; so is one of which both is true only for what queries ask of it.
   * Any other one would be asked in vain.
   *
   * @param kinds
   *   to be recorded of each column that is chosen; None: what each is worth
   * @param worth
   *   the greatest share of files that may hold a value of a column worth skipping by
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
    val seen = s"of $files files looked at"
    def chosen(kinds: Set[Kind], why: String, asked: Option[Double] = None) =
      Right(PlannedColumn(column, kinds, why, asked))
    def forWhatIsAsked(questions: SampledQuestions): Option[Either[LeftOut, PlannedColumn]] = {
      def why(share: Double) =
        s"asked for: $seen, ${percent(share)} may hold what ${questions.scans} noted scans asked of it, " +
          s"${percent(byValues.min(byBounds))} a given value"
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

/** What was asked of a column before: `scans` scans each wanted the files with a value among these keys. */
case class Asked(column: String, scans: Long, keys: RangeSet)

/** Looks at some of a table's files, to tell which columns are worth it. */
private[skipping] object Sampling {

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
  private[skipping] def evenly(listed: Vector[ListedFile]): Vector[ListedFile] = {
    val sorted = listed.sortBy(file => (file.directory, file.name))
    val count = math.min(MaxFiles, sorted.size)
    Vector.tabulate(count)(i => sorted((i.toLong * sorted.size / count).toInt))
  }

  private def withoutLists(entry: FileEntry): FileEntry =
    entry.copy(columns = entry.columns.map { case (name, column) => name -> column.copy(values = None) })
}
