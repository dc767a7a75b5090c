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

/**
 * Queries over a world's tables.
 *
 * @param ordered
 *   whether a table's rows come in the same order each time, on which a sample depends
 */
final class Queries(tables: Seq[Table], dice: Dice, ordered: Boolean) {

  private val predicates = new Predicates(dice)
  private val (facts, dimensions) = tables.partition(Table.isFact)

  /** What can be said of a source by its alias. */
  private case class Visible(alias: String, columns: Seq[Column])

  def next(): Query = {
    val table = if (dice.chance(0.9)) dice.oneOf(facts) else dice.oneOf(tables)
    val (from, first) = source(table, "x0", filtered = dice.chance(0.55), bare = 0.85)
    var visible = Vector(first)
    // What a join that leaves one row for many may have nulls of.
    val joins = (1 to dice.of(0, 0, 1, 1, 1, 1, 2, 2, 3)).map { n =>
      val (join, right) = joined(visible, s"x$n")
      if (!join.kind.contains("SEMI") && !join.kind.contains("ANTI")) visible :+= right
      join
    }
    val where =
      Seq.fill(dice.of(0, 0, 1, 2))(condition(dice.oneOf(visible))) ++
        Option.when(joins.isEmpty || dice.chance(0.2))(selectiveOf(dice.oneOf(visible))) ++
        Option.when(dice.chance(0.25))(subquery(dice.oneOf(visible)))
    val (select, groupBy, groups) = output(visible)
    val hints = joins.map(_.source.alias).filter(_ => dice.chance(0.3)).map { alias =>
      s"${dice.of("BROADCAST", "BROADCAST", "MERGE", "SHUFFLE_HASH", "SHUFFLE_REPLICATE_NL")}($alias)"
    }
    Query(select, hints, from, joins, where, groupBy, template(groupBy.isEmpty, groups), Settings.of(dice))
  }

  /** What is selected and what it is grouped by; and the column that names the groups as `v`. */
  private def output(visible: Seq[Visible]): (Seq[String], Seq[String], Option[Column]) = {
    val ids = visible.map(v => s"${v.alias}.${Table.Id}")
    val (first, key) = columnOf(dice.oneOf(visible))
    dice.weighed(
      3 -> (() => (ids.zipWithIndex.map { case (id, i) => s"$id AS i$i" } :+ s"$first AS v", Nil, None)),
      3 -> (() => (Seq("count(*) AS i0") ++ ids.zipWithIndex.map { case (id, i) => s"sum($id) AS s$i" }, Nil, None)),
      2 -> { () =>
        val value = if (key.kind.exact) first else "1"
        val select = Seq(s"count(*) AS i0", s"$value AS v", s"max(${ids.head}) AS m")
        (select, Seq(first), Option.when(key.kind.exact)(key))
      }
    )
  }

  /** The same twice, so that exchanges could be reused, or in a place of a larger query. */
  private def template(rows: Boolean, groups: Option[Column]): Option[String] = dice.weighed(
    12 -> (() => None),
    6 -> (() => groups.flatMap(joinedGroups)),
    1 -> (() =>
      Some("SELECT count(*) FROM (SELECT DISTINCT i0 FROM (%s)) a JOIN (SELECT DISTINCT i0 FROM (%s)) b USING (i0)")
    ),
    1 -> (() => Some("%s UNION ALL %s")),
    1 -> (() => Some("WITH c AS (%s) SELECT * FROM c WHERE i0 > (SELECT avg(i0) FROM c)")),
    1 -> (() => Option.when(rows)("SELECT count(DISTINCT i0), min(i0) FROM (%s)"))
  )

  /** Groups of which a join leaves some: what it asks of them may be asked of the rows that they are made of. */
  private def joinedGroups(key: Column): Option[String] = {
    val table = dice.oneOf(dimensions)
    table.columns.find(_.kind.family == key.kind.family).map { column =>
      val filter = selectiveOf(Visible("z", table.columns))
      s"SELECT q.i0, q.v, q.m, z.${Table.Id} FROM (%s) q JOIN ${table.name} z ON q.v = z.${column.name} WHERE $filter"
    }
  }

  private def source(table: Table, alias: String, filtered: Boolean, bare: Double): (Source, Visible) = {
    val inside = Visible(table.name, table.columns)
    val filters =
      if (filtered) Seq(selectiveOf(inside)) ++ Option.when(dice.chance(0.2))(condition(inside)) else Nil
    val around = Option.when(!dice.chance(bare))(shape(table))
    val columns =
      if (around.exists(_.contains("GROUP BY"))) table.columns.filter(_.name == grouping(table)) else table.columns
    (Source(table.name, alias, filters, around), Visible(alias, columns))
  }

  /** What filters and files must not be carried through, or what they are carried through all the same. */
  private def shape(table: Table): String = {
    val key = grouping(table)
    val other = dice.oneOf(tables)
    val shared = if (table.columns.map(_.kind.family) == other.columns.map(_.kind.family)) other else table
    val names = (Table.Id +: table.columns.map(_.name)).mkString(", ")
    dice.of(
      s"SELECT * FROM %s ORDER BY id LIMIT ${dice.between(1, 60)}",
      s"SELECT * FROM %s ORDER BY $key NULLS LAST, id DESC LIMIT ${dice.between(1, 60)}",
      s"SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY $key ORDER BY id) AS rn FROM %s) WHERE rn < 3",
      s"SELECT * FROM (SELECT *, lag(id) OVER (ORDER BY id) AS before FROM %s) WHERE before % 2 = 0",
      s"SELECT $key, max(id) AS id FROM %s GROUP BY $key",
      s"SELECT $key, ${dice.of("count(*)", "sum(id)", "min(id)", "max_by(id, id)")} AS id FROM %s GROUP BY $key",
      s"SELECT $names FROM %s UNION ALL SELECT $names FROM ${shared.name}",
      s"SELECT DISTINCT $names FROM %s",
      s"SELECT * FROM (SELECT * FROM ${table.name} ${if (ordered) "TABLESAMPLE (50 PERCENT) REPEATABLE (7)" else ""}) ${table.name} " +
        s"WHERE id IN (SELECT id FROM %s)"
    )
  }

  private def grouping(table: Table): String = table.columns.find(_.kind.exact).getOrElse(table.columns.head).name

  private def joined(visible: Seq[Visible], alias: String): (Join, Visible) = {
    val table = if (dice.chance(0.75)) dice.oneOf(dimensions) else dice.oneOf(tables)
    val (right, seen) = source(table, alias, filtered = dice.chance(0.85), bare = 0.85)
    val kind =
      dice.of(
        "INNER",
        "INNER",
        "INNER",
        "INNER",
        "LEFT",
        "RIGHT",
        "RIGHT",
        "FULL",
        "LEFT SEMI",
        "LEFT SEMI",
        "LEFT ANTI"
      )
    val left = dice.oneOf(visible)
    // All pairs only with a few rows, or a query would take as long as a thousand others.
    val alternative = Option.when(!Table.isFact(table) && dice.chance(0.05))(comparison(left, seen))
    val equal = equality(left, seen)
    val on = Seq(alternative.fold(equal)(other => s"($equal OR $other)")) ++
      Option.when(dice.chance(0.15))(equality(dice.oneOf(visible), seen)) ++
      Option.when(dice.chance(0.15))(comparison(left, seen)) ++
      Option.when(dice.chance(0.15))(condition(dice.of(left, seen)))
    (Join(kind, right, on), seen)
  }

  /** Two columns of one family, of any family where these sources share none. */
  private def pair(left: Visible, right: Visible): (Column, Column) = {
    val pairs = for (a <- left.columns; b <- right.columns if a.kind.family == b.kind.family) yield (a, b)
    if (pairs.isEmpty) (left.columns.head, right.columns.head) else dice.oneOf(pairs)
  }

  private def equality(left: Visible, right: Visible): String = {
    val (a, b) = pair(left, right)
    val (l, r) = (s"${left.alias}.${a.name}", s"${right.alias}.${b.name}")
    val number = a.kind.family == Kind.Number && b.kind.family == Kind.Number
    dice.weighed(
      16 -> (() => s"$l = $r"),
      2 -> (() => s"$r = $l"),
      1 -> (() => s"$l <=> $r"),
      1 -> (() => if (number) s"CAST($l AS BIGINT) = $r" else s"CAST($l AS STRING) = CAST($r AS STRING)"),
      1 -> (() => if (number) s"CAST($l AS DECIMAL(38,6)) = CAST($r AS DECIMAL(38,6)) + 1" else s"$l = $r"),
      1 -> (() => s"coalesce($l, ${predicates.literal(a.kind)}) = $r")
    )
  }

  private def comparison(left: Visible, right: Visible): String = {
    val (a, b) = pair(left, right)
    s"${left.alias}.${a.name} ${dice.of("<", "<=", ">", ">=", "<>")} ${right.alias}.${b.name}"
  }

  private def subquery(outer: Visible): String = {
    val table = dice.oneOf(tables)
    val inner = Visible("y", table.columns)
    val (a, b) = pair(outer, inner)
    val column = s"${outer.alias}.${a.name}"
    val rows = s"FROM ${table.name} y WHERE ${selectiveOf(inner)}"
    val usual = Seq[(Int, () => String)](
      4 -> (() => s"$column IN (SELECT y.${b.name} $rows)"),
      1 -> (() => s"$column NOT IN (SELECT y.${b.name} $rows AND y.${b.name} IS NOT NULL)"),
      1 -> (() => s"$column NOT IN (SELECT y.${b.name} $rows)"),
      3 -> (() => s"EXISTS (SELECT 1 $rows AND y.${b.name} = $column)"),
      2 -> (() => s"NOT EXISTS (SELECT 1 $rows AND y.${b.name} = $column)"),
      2 -> (() => s"(${condition(outer)} OR $column IN (SELECT y.${b.name} $rows))"),
      3 -> (() => s"$column ${dice.of("=", "=", "<", ">=")} (SELECT ${dice.of("max", "min")}(y.${b.name}) $rows)")
    )
    // What is said of the outer rows holds for the inner ones, too: Spark finds it out when it has planned Iceberg's scan.
    def late = 2 -> { () =>
      val most = s"SELECT ${dice.of("max", "min")}(y.${Table.Id}) $rows AND y.${b.name} = $column"
      s"${predicates.selective(outer.alias, a)} AND ${outer.alias}.${Table.Id} ${dice.of("<=", ">=")} ($most)"
    }
    dice.weighed(usual.head, usual.tail ++ Option.unless(ordered)(late): _*)
  }

  private def columnOf(visible: Visible): (String, Column) = {
    val column = dice.oneOf(visible.columns)
    (s"${visible.alias}.${column.name}", column)
  }

  private def condition(visible: Visible): String = predicates.any(visible.alias, visible.columns)

  private def selectiveOf(visible: Visible): String = predicates.selective(visible.alias, dice.oneOf(visible.columns))
}

/** Conditions on one table's columns. */
final class Predicates(dice: Dice) {

  /** Of any form, nested. */
  def any(alias: String, columns: Seq[Column], depth: Int = 2): String =
    if (depth == 0 || dice.chance(0.5)) leaf(alias, columns)
    else {
      def inner: String = any(alias, columns, depth - 1)
      dice.weighed(
        2 -> (() => s"($inner AND $inner)"),
        3 -> (() => s"($inner OR $inner)"),
        2 -> (() => s"NOT ($inner)"),
        1 -> (() => s"CASE WHEN $inner THEN $inner ELSE $inner END"),
        1 -> (() => s"coalesce($inner, ${dice.of("true", "false")})")
      )
    }

  /** True of a few values of the column. */
  def selective(alias: String, column: Column): String = {
    val name = s"$alias.${column.name}"
    val at = dice.below(Kind.Domain)
    def value(n: Int): String = column.kind.literal(column.kind.at(math.min(n, Kind.Domain - 1)))
    dice.weighed(
      3 -> (() => s"$name = ${value(at)}"),
      2 -> (() => s"$name BETWEEN ${value(at)} AND ${value(at + dice.below(10))}"),
      1 -> (() => s"$name IN (${value(at)}, ${value(dice.below(Kind.Domain))})"),
      1 -> (() => s"$name > ${value(Kind.Domain - dice.below(8))}"),
      1 -> (() => s"$name < ${value(dice.below(8))}")
    )
  }

  /** A value as a literal: of the domain, of the edges, between two values, null. */
  def literal(kind: Kind): String = dice.weighed(
    12 -> (() => kind.literal(kind.at(dice.below(Kind.Domain)))),
    2 -> (() => kind.literal(dice.oneOf(kind.edges))),
    1 -> (() => kind.literal(null)),
    // Of another type than the column: one of the two is cast.
    4 -> { () =>
      val other = dice.oneOf(Kind.ofFamily(kind.family))
      other.literal(if (dice.chance(0.8)) other.at(dice.below(Kind.Domain)) else dice.oneOf(other.edges))
    },
    2 -> { () =>
      if (kind.family == Kind.Number) dice.of("0.5", "-3.25D", "1e30D", "99999999999", "12", "-7") else "NULL"
    }
  )

  private def leaf(alias: String, columns: Seq[Column]): String = {
    val column = dice.oneOf(columns)
    val name = s"$alias.${column.name}"
    val kind = column.kind
    def one: String = literal(kind)
    dice.weighed(
      8 -> (() => s"$name ${dice.of("=", "=", "<", "<=", ">", ">=", "<>", "<=>")} $one"),
      2 -> (() => s"$one ${dice.of("=", "<", "<=", ">", ">=", "<=>")} $name"),
      3 -> (() => s"$name ${dice.of("", "", "NOT ")}IN (${Seq.fill(dice.of(1, 3, 12))(one).mkString(", ")})"),
      3 -> (() => s"$name ${dice.of("", "", "NOT ")}BETWEEN $one AND $one"),
      2 -> (() => s"$name IS ${dice.of("", "NOT ")}NULL"),
      1 -> (() => if (columns.size > 1) s"$name IS NOT NULL OR $alias.${dice.oneOf(columns).name} IS NULL" else "true"),
      2 -> (() => ofFamily(name, kind)),
      1 -> (() => sameFamily(alias, column, columns)),
      1 -> (() => s"coalesce($name, $one) = $one"),
      1 -> (() => s"CAST($name AS STRING) = CAST($one AS STRING)"),
      6 -> (() => cast(alias, column)),
      1 -> (() => s"if($name > $one, $name < $one, $name IS NULL)"),
      1 -> (() => s"nullif($name, $one) ${dice.of("=", "<=>", ">")} $one")
    )
  }

  /** The column and a value, both put through the same one to four casts. */
  def cast(alias: String, column: Column): String = {
    val (name, kind) = (s"$alias.${column.name}", column.kind)
    val away = Iterator
      .iterate(kind.sql)(from => dice.oneOf(Predicates.castableFrom(from)))
      .slice(1, 1 + dice.of(1, 1, 1, 2, 3))
      .toVector
    // There and back: what a cast loses shows where the ends are alike.
    val back = dice.chance(0.6) && Predicates.castableFrom(away.last).contains(kind.sql)
    val chain = if (back) away :+ kind.sql else away
    // What cannot be cast fails with ANSI's rules, and a query that fails says nothing.
    val plain = dice.chance(0.3)
    val steps = (kind.sql +: chain).zip(chain).map { case (from, to) =>
      (if (plain && !from.startsWith("STRING")) "CAST" else "TRY_CAST") -> to
    }
    def through(value: String): String = steps.foldLeft(value) { case (inner, (cast, to)) => s"$cast($inner AS $to)" }
    val one = if (dice.chance(0.7)) kind.literal(kind.at(dice.below(Kind.Domain))) else literal(kind)
    val value = if (dice.chance(0.8)) through(one) else one
    s"${through(name)} ${dice.of("=", "=", "<=>", "<", ">=", "IN")} ($value)"
  }

  private def sameFamily(alias: String, column: Column, columns: Seq[Column]): String = {
    val other = dice.oneOf(columns.filter(_.kind.family == column.kind.family))
    s"$alias.${column.name} ${dice.of("=", "<", "<=>")} $alias.${other.name}"
  }

  private def ofFamily(name: String, kind: Kind): String = kind.family match {
    case Kind.Number =>
      dice.of(
        s"CAST($name AS BIGINT) = ${dice.between(-45, 45)}",
        s"CAST($name AS DECIMAL(38,6)) <= ${dice.between(-45, 45)}.5",
        s"$name % 7 = ${dice.below(7)}",
        s"abs(CAST($name AS DOUBLE)) < ${dice.below(45)}",
        s"-CAST($name AS DOUBLE) > ${dice.between(-45, 45)}"
      )
    case Kind.Day =>
      dice.of(
        s"CAST($name AS DATE) ${dice.of("=", "<", ">")} DATE '2000-02-${dice.between(10, 28)}'",
        s"CAST($name AS TIMESTAMP) ${dice.of("<=", ">")} TIMESTAMP '2000-02-${dice.between(10, 28)} 12:00:00'",
        s"$name ${dice.of("<=", ">")} '2000-01-${dice.between(10, 28)}'",
        s"year($name) = ${dice.of(1, 1582, 1999, 2000)}",
        s"date_add(CAST($name AS DATE), ${dice.between(-3, 3)}) = DATE '2000-02-${dice.between(10, 28)}'"
      )
    case Kind.Text | Kind.FoldedText =>
      val prefix = dice.of("k", "k0", "k01", "k" * 71, "k" * 70 + "04", "K0", "", "\uffff", "kk")
      dice.of(
        s"$name LIKE '$prefix%'",
        s"$name NOT LIKE '$prefix%'",
        s"startswith($name, '$prefix')",
        s"$name LIKE '%${dice.below(80)}'",
        s"$name LIKE '${prefix}_${dice.below(10)}%'",
        s"substr($name, 1, 3) = 'k0${dice.below(8)}'",
        s"upper($name) = 'K0${dice.below(80)}'",
        s"length($name) ${dice.of("<", ">")} 10"
      )
    case _ => s"length($name) ${dice.of("<", ">", "=")} ${dice.of(0, 4, 73)}"
  }
}

private object Predicates {

  private val Numbers = Seq("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL(20,2)", "DECIMAL(38,6)", "DOUBLE")
  private val Times = Seq("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")

  /** The types that Spark casts values of a type to, by itself or by a cast. */
  def castableFrom(sql: String): Seq[String] = sql.takeWhile(c => c != ' ' && c != '(') match {
    case "DATE" | "TIMESTAMP_NTZ" => Times :+ "STRING"
    // Mostly what loses the fractions of a second.
    case "TIMESTAMP" => Times ++ Seq("STRING", "DECIMAL(20,6)", "DOUBLE") ++ Seq.fill(6)("BIGINT")
    case "STRING" => Seq("STRING", "STRING COLLATE UTF8_LCASE", "BINARY") ++ Times ++ Numbers.takeRight(4)
    case "BINARY" => Seq("STRING", "BINARY")
    case _ => Numbers ++ Seq("STRING", "TIMESTAMP")
  }
}
