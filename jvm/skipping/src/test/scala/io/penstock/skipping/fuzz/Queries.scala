package io.penstock.skipping.fuzz

/** Queries over a world's tables. */
final class Queries(tables: Seq[Table], dice: Dice) {

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

  /** What is selected and what it is grouped by; and the column whose values the groups are told apart by as `v`. */
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
      s"SELECT * FROM (SELECT * FROM ${table.name} TABLESAMPLE (50 PERCENT) REPEATABLE (7)) ${table.name} " +
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
    dice.weighed(
      4 -> (() => s"$column IN (SELECT y.${b.name} $rows)"),
      1 -> (() => s"$column NOT IN (SELECT y.${b.name} $rows AND y.${b.name} IS NOT NULL)"),
      1 -> (() => s"$column NOT IN (SELECT y.${b.name} $rows)"),
      3 -> (() => s"EXISTS (SELECT 1 $rows AND y.${b.name} = $column)"),
      2 -> (() => s"NOT EXISTS (SELECT 1 $rows AND y.${b.name} = $column)"),
      2 -> (() => s"(${condition(outer)} OR $column IN (SELECT y.${b.name} $rows))"),
      3 -> (() => s"$column ${dice.of("=", "=", "<", ">=")} (SELECT ${dice.of("max", "min")}(y.${b.name}) $rows)")
    )
  }

  private def columnOf(visible: Visible): (String, Column) = {
    val column = dice.oneOf(visible.columns)
    (s"${visible.alias}.${column.name}", column)
  }

  private def condition(visible: Visible): String = predicates.any(visible.alias, visible.columns)

  private def selectiveOf(visible: Visible): String = predicates.selective(visible.alias, dice.oneOf(visible.columns))
}
