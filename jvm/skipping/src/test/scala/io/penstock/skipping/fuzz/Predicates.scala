package io.penstock.skipping.fuzz

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

  /** The types that Spark casts values of a type to, by itself or when told to. */
  def castableFrom(sql: String): Seq[String] = sql.takeWhile(c => c != ' ' && c != '(') match {
    case "DATE" | "TIMESTAMP_NTZ" => Times :+ "STRING"
    // Mostly what loses the fractions of a second.
    case "TIMESTAMP" => Times ++ Seq("STRING", "DECIMAL(20,6)", "DOUBLE") ++ Seq.fill(6)("BIGINT")
    case "STRING" => Seq("STRING", "STRING COLLATE UTF8_LCASE", "BINARY") ++ Times ++ Numbers.takeRight(4)
    case "BINARY" => Seq("STRING", "BINARY")
    case _ => Numbers ++ Seq("STRING", "TIMESTAMP")
  }
}
