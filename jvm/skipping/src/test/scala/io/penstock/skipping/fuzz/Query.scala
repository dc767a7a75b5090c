package io.penstock.skipping.fuzz

/**
 * A table in a FROM clause.
 *
 * @param filters
 *   by the table's own name, which it has inside
 * @param around
 *   SQL with `%s` for the table and its filters; what rows go through before they are joined
 */
final case class Source(table: String, alias: String, filters: Seq[String] = Nil, around: Option[String] = None) {
  def sql: String =
    if (filters.isEmpty && around.isEmpty) s"$table $alias"
    else {
      val where = if (filters.isEmpty) "" else filters.mkString(" WHERE ", " AND ", "")
      s"(${around.getOrElse("SELECT * FROM %s").replace("%s", table + where)}) $alias"
    }

  def smaller: Seq[Source] =
    Query.without(filters).map(fewer => copy(filters = fewer)) ++ around.map(_ => copy(around = None))
}

final case class Join(kind: String, source: Source, on: Seq[String]) {
  def sql: String = s"$kind JOIN ${source.sql}" + (if (on.isEmpty) "" else on.mkString(" ON ", " AND ", ""))

  def smaller: Seq[Join] =
    source.smaller.map(less => copy(source = less)) ++
      (if (on.size > 1) Query.without(on).map(fewer => copy(on = fewer)) else Nil)
}

/**
 * A query whose answer does not depend on the order in which rows are read.
 *
 * @param template
 *   SQL around it with `%s` for the query itself, maybe twice
 * @param settings
 *   of the session
 */
final case class Query(
    select: Seq[String],
    hints: Seq[String],
    from: Source,
    joins: Seq[Join],
    where: Seq[String],
    groupBy: Seq[String],
    template: Option[String],
    settings: Map[String, String]
) {
  def sql: String = {
    val hint = if (hints.isEmpty) "" else hints.mkString("/*+ ", ", ", " */ ")
    val conditions = if (where.isEmpty) "" else where.mkString(" WHERE ", " AND ", "")
    val groups = if (groupBy.isEmpty) "" else groupBy.mkString(" GROUP BY ", ", ", "")
    val tables = (from.sql +: joins.map(_.sql)).mkString(" ")
    val text = s"SELECT $hint${select.mkString(", ")} FROM $tables$conditions$groups"
    template.map(_.replace("%s", text)).getOrElse(text)
  }

  /** Queries with one thing less, some of which may be wrong. */
  def smaller: Seq[Query] =
    template.map(_ => copy(template = None)).toSeq ++
      joins.indices.reverse.map(i => copy(joins = joins.patch(i, Nil, 1))) ++
      (if (groupBy.nonEmpty) Seq(copy(select = Seq("count(*)"), groupBy = Nil)) else Nil) ++
      Query.without(where).map(fewer => copy(where = fewer)) ++
      Query.without(hints).map(fewer => copy(hints = fewer)) ++
      from.smaller.map(less => copy(from = less)) ++
      joins.indices.flatMap(i => joins(i).smaller.map(less => copy(joins = joins.updated(i, less)))) ++
      settings.keys.toSeq.sorted.map(name => copy(settings = settings - name))
}

object Query {
  private[fuzz] def without[A](all: Seq[A]): Seq[Seq[A]] = all.indices.map(i => all.patch(i, Nil, 1))
}
