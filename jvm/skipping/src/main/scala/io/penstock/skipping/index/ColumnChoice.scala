package io.penstock.skipping.index

import java.util.Locale

/** Which columns an index covers, and why. Pure: it is given what a sample of the files says. */
private[index] object ColumnChoice {

  case class Choice(plan: Seq[PlannedColumn], leftOut: Seq[LeftOut])

  /**
   * What a sample of the files says of a column.
   *
   * @param byBounds
   *   the share of files, 0 to 1, that may hold a value, as their bounds tell
   * @param byValues
   *   likewise, as value lists tell where dictionaries give them
   */
  case class Sampled(column: IndexedColumn, byBounds: Double, byValues: Double)

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
   * values each file holds few is worth their lists; any other one would be asked in vain.
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
    val judged = sampled.map { column =>
      val (worthwhile, why) = judge(column, sampledFiles, worth)
      (column.column, worthwhile.map(found => kinds.fold(found)(_ + Kind.MinMax)), why)
    }
    val plan = judged.collect { case (column, Some(found), why) => PlannedColumn(column, found, why) }
    val scattered = judged.collect { case (column, None, why) => LeftOut(column.name, why) }
    val impossible = table.columns
      .filter(field => Domain.of(field.dataType).isEmpty)
      .map(field => LeftOut(field.name, noDomain(field.dataType.sql)))
    Choice(plan, scattered ++ impossible)
  }

  private def judge(column: Sampled, files: Int, worth: Double): (Option[Set[Kind]], String) = {
    val seen = s"of $files files looked at"
    if (files < 2) (Some(Set(Kind.MinMax)), s"$files files are too few to tell what is worth it")
    else if (column.byBounds <= worth)
      (Some(Set(Kind.MinMax)), s"clustered: $seen, ${percent(column.byBounds)} may hold a given value")
    else if (column.byValues <= worth) {
      val why = s"few values in each file: $seen, ${percent(column.byValues)} hold a given value by their lists, " +
        s"${percent(column.byBounds)} by their bounds"
      (Some(Set(Kind.MinMax, Kind.Values)), why)
    } else (None, s"scattered: $seen, ${percent(column.byValues.min(column.byBounds))} may hold a given value")
  }

  private def noDomain(sqlType: String) = s"nothing sound or useful can be recorded of values of type $sqlType"

  private def percent(share: Double): String = "%.0f %%".formatLocal(Locale.ROOT, share * 100)
}
