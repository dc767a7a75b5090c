package io.penstock.skipping.index

/** Which columns an index covers. Pure: it is given what a sample of the files holds. */
private[index] object ColumnChoice {

  def possible(table: IndexedTable): Seq[IndexedColumn] =
    table.columns.toSeq.filter(field => Domain.of(field.dataType).isDefined).map(f => IndexedColumn(f.name, f.dataType))

  /** Throws an `IllegalArgumentException` where the table's files have no such column, or it cannot be indexed. */
  def requested(table: IndexedTable, names: Seq[String], kinds: Set[Kind]): Seq[PlannedColumn] = names.map { name =>
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
        s"Column ${field.name} of ${table.name} cannot be indexed: nothing sound can be said of type " +
          s"${field.dataType.sql}. Leave it out"
      )
    PlannedColumn(IndexedColumn(field.name, field.dataType), kinds, "asked for")
  }
}
