package io.penstock.skipping.sql

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.layout.{Layout, RangeLevel}
import io.penstock.skipping.sql.Statement._
import io.penstock.skipping.testing.Properties

class SkippingParserTest extends AnyFunSuite with Properties {

  private def statement(text: String): Statement = StatementParser.parse(text) match {
    case Some(Right(statement)) => statement
    case other => fail(s"$text: $other")
  }

  private def error(text: String): SyntaxError = StatementParser.parse(text) match {
    case Some(Left(error)) => error
    case other => fail(s"$text: $other")
  }

  test("each statement, in whatever capitals, with or without TABLE and a semicolon") {
    assert(statement("BUILD SKIPPING INDEX ON t") == Build(Seq("t"), None, None))
    assert(statement("refresh skipping index on table db.t;") == Refresh(Seq("db", "t")))
    assert(statement("Show Skipping Index On cat.db.t ; ;") == Show(Seq("cat", "db", "t")))
    assert(statement("DROP SKIPPING INDEX ON TABLE t") == Drop(Seq("t")))
  }

  test("advice is asked for, and a layout named or taken from it") {
    assert(statement("SHOW SKIPPING ADVICE ON table db.t") == Advice(Seq("db", "t")))
    assert(statement("REWRITE TABLE t AS ADVISED") == Rewrite(Seq("t"), None, None))
    val both = "rewrite table t into db.u partitioned by (day, `a b`) ranged by (item into 8, shop);"
    val layout = Layout(Seq("day", "a b"), Seq(RangeLevel("item", Some(8)), RangeLevel("shop", None)))
    assert(statement(both) == Rewrite(Seq("t"), Some(Seq("db", "u")), Some(layout)))
    assert(statement("REWRITE TABLE table AS ADVISED") == Rewrite(Seq("table"), None, None))
    assert(statement(s"REWRITE TABLE t ${layout.sql}") == Rewrite(Seq("t"), None, Some(layout)))
  }

  test("a layout that is incomplete, twice or in another order is refused where it stops making sense") {
    assert(error("REWRITE TABLE t").expected == "AS ADVISED, PARTITIONED BY or RANGED BY")
    assert(error("REWRITE TABLE t AS").expected == "ADVISED")
    assert(error("REWRITE TABLE t PARTITIONED (a)").expected == "BY")
    assert(error("REWRITE TABLE t RANGED BY (a INTO 0)").near == "'0'")
    assert(error("REWRITE TABLE t RANGED BY (a) PARTITIONED BY (b)").expected == "PARTITIONED BY before RANGED BY")
    assert(error("REWRITE TABLE t AS ADVISED RANGED BY (a)").expected == "the end of the statement")
    assert(StatementParser.parse("DROP SKIPPING ADVICE ON t").isEmpty)
  }

  test("columns and kinds may be said, each or both") {
    val both = "BUILD SKIPPING INDEX ON t COLUMNS (a, `b c`) KINDS (minmax, VALUES)"
    assert(statement(both) == Build(Seq("t"), Some(Seq("a", "b c")), Some(Seq("minmax", "VALUES"))))
    assert(statement("BUILD SKIPPING INDEX ON t KINDS(bloom)") == Build(Seq("t"), None, Some(Seq("bloom"))))
    assert(statement("BUILD SKIPPING INDEX ON t COLUMNS(a)") == Build(Seq("t"), Some(Seq("a")), None))
  }

  test("a path keeps its dots, slashes, spaces and backquotes") {
    assert(
      statement("SHOW SKIPPING INDEX ON parquet.`s3a://b/a.b/c d``e`") == Show(Seq("parquet", "s3a://b/a.b/c d`e"))
    )
  }

  test("words of the grammar are names where they stand for a table or a column") {
    assert(statement("SHOW SKIPPING INDEX ON table") == Show(Seq("table")))
    assert(statement("SHOW SKIPPING INDEX ON table;") == Show(Seq("table")))
    assert(statement("SHOW SKIPPING INDEX ON table.on") == Show(Seq("table", "on")))
    assert(statement("SHOW SKIPPING INDEX ON TABLE table") == Show(Seq("table")))
    assert(statement("BUILD SKIPPING INDEX ON index COLUMNS (columns, kinds)").table == Seq("index"))
  }

  test("comments and line ends may be anywhere between words") {
    val text = "-- before\n/* what; */ DROP\n\tSKIPPING--\nINDEX /* on */ ON\r\n db . t -- after"
    assert(statement(text) == Drop(Seq("db", "t")))
  }

  test("a page of comments before a statement, or a name of a page, is no harder than a line") {
    val page = "-- a licence\n\n" * 20000
    assert(statement(s"${page}DROP SKIPPING INDEX ON t") == Drop(Seq("t")))
    assert(StatementParser.parse(s"${page}SELECT 1").isEmpty)
    assert(statement(s"DROP SKIPPING INDEX ON `${"``x" * 20000}`") == Drop(Seq("`x" * 20000)))
  }

  test("any name comes back from its backquotes") {
    val part =
      Gen.nonEmptyListOf(Gen.oneOf('a', 'Z', '`', ' ', '.', '-', '\n', '/', '*', ';', 'ß', '語', '"')).map(_.mkString)
    forAll(Gen.nonEmptyListOf(part)) { parts =>
      val quoted = parts.map(part => s"`${part.replace("`", "``")}`").mkString(".")
      assert(statement(s"DROP SKIPPING INDEX ON $quoted") == Drop(parts))
    }
  }

  test("what is not about skipping is Spark's, also where it almost is") {
    val others = Seq(
      "",
      ";",
      "-- nothing",
      "/*",
      "SELECT 1",
      "SHOW TABLES",
      "SHOW SKIPPING",
      "SHOW INDEX ON t",
      "DROP INDEX skipping ON t",
      "BUILD",
      "REFRESH TABLE t",
      "REFRESH skipping",
      "DROP TABLE skipping",
      "`BUILD` SKIPPING INDEX ON t",
      "EXPLAIN SHOW SKIPPING INDEX ON t",
      "BUILDSKIPPING INDEX ON t",
      "SHOW SKIPPING INDEXES ON t"
    )
    for (text <- others) assert(StatementParser.parse(text).isEmpty, text)
  }

  test("arbitrary text never makes the parser fail") {
    forAll(Gen.asciiPrintableStr, Gen.oneOf("", "BUILD SKIPPING INDEX ", "DROP SKIPPING INDEX ON ")) { (text, start) =>
      StatementParser.parse(start + text)
    }
  }

  test("an error says what was found where, and what would have been right") {
    assert(error("BUILD SKIPPING INDEX") == SyntaxError("end of input", "ON and the table", 1, 20))
    assert(error("BUILD SKIPPING INDEX\n  FOR t") == SyntaxError("'FOR'", "ON and the table", 2, 2))
    assert(error("DROP SKIPPING INDEX ON").expected.contains("parquet.`path`"))
    assert(error("DROP SKIPPING INDEX ON a.").near == "end of input")
    assert(error("DROP SKIPPING INDEX ON t u") == SyntaxError("'u'", "the end of the statement", 1, 25))
    assert(error("DROP SKIPPING INDEX ON t COLUMNS (a)").near == "'COLUMNS'")
    assert(error("BUILD SKIPPING INDEX ON t COLUMNS ()").expected == "a column")
    assert(error("BUILD SKIPPING INDEX ON t COLUMNS (a b)").near == "'b'")
    assert(error("BUILD SKIPPING INDEX ON t KINDS (minmax) COLUMNS (a)").expected == "COLUMNS before KINDS")
    assert(error("SHOW SKIPPING INDEX ON 'x'").near == "'''")
    assert(error("SHOW SKIPPING INDEX ON `x").near == "'`'")
  }
}
