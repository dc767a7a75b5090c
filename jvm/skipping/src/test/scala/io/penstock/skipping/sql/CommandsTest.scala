package io.penstock.skipping.sql

import org.apache.spark.sql.catalyst.parser.ParseException
import org.apache.spark.sql.{AnalysisException, Row}
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.LocalSpark

/** Statements about skipping through a session's own `sql`, and everybody else's statements beside them. */
class CommandsTest extends AnyFunSuite with LocalSpark {

  private def sql(text: String): Seq[Row] = spark.sql(text).collect().toSeq

  private def columns(text: String): Seq[String] = spark.sql(text).columns.toSeq

  override def beforeAll(): Unit = {
    super.beforeAll()
    sql("CREATE TABLE t USING parquet AS SELECT id, CAST(id AS DOUBLE) AS price FROM range(0, 100, 1, 4)")
    sql("CREATE VIEW seen AS SELECT * FROM t")
    sql("CREATE TABLE lines (line STRING) USING json")
    sql("CREATE TABLE bare USING parquet AS SELECT id FROM range(1)")
  }

  test("an index is built, shown, refreshed and dropped") {
    assert(sql("SHOW SKIPPING INDEX ON t").isEmpty)
    assert(columns("BUILD SKIPPING INDEX ON t") == Seq("files", "read", "obsolete", "unreadable", "unsettled"))
    assert(sql("BUILD SKIPPING INDEX ON TABLE default.t COLUMNS (ID) KINDS (minmax)") == Seq(Row(4L, 4L, 0L, 0L, 0L)))

    val shown = sql("SHOW SKIPPING INDEX ON t")
    assert(Row.fromSeq(shown.head.toSeq.init) == Row("id", "BIGINT", "minmax", 4, 0.25))
    assert(shown.forall(_.getString(5).nonEmpty), "each column says why it is covered or not")

    sql("INSERT INTO t SELECT id, 0.5 FROM range(100, 110, 1, 1)")
    assert(sql("REFRESH SKIPPING INDEX ON t") == Seq(Row(5L, 1L, 0L, 0L, 0L)))
    assert(sql("REFRESH SKIPPING INDEX ON t") == Seq(Row(5L, 0L, 0L, 0L, 0L)))
    assert(sql("DROP SKIPPING INDEX ON t") == Seq(Row(true)))
    assert(sql("DROP SKIPPING INDEX ON t") == Seq(Row(false)))
    assert(sql("SELECT count(*) FROM t") == Seq(Row(110L)))
  }

  test("a table without a catalog is named by its path, also by a variable") {
    val path = directory.resolve("a.b/c d").toUri.toString
    spark.range(10).write.parquet(path)
    sql(s"BUILD SKIPPING INDEX ON parquet.`$path`")
    sql(s"SET place=parquet.`$path`")
    val shown = sql("SHOW SKIPPING INDEX ON ${place}")
    assert(shown.map(_.getString(0)) == Seq("id"))
    assert(sql(s"DROP SKIPPING INDEX ON parquet.`$path`") == Seq(Row(true)))
  }

  test("a mistake that Spark's parser finds has Spark's condition") {
    val text = "EXECUTE IMMEDIATE 'SELECT ? = 1 AND :name = 2' USING 1 AS x, 2 AS name"
    val error = intercept[AnalysisException](sql(text))
    assert(error.getCondition == "INVALID_QUERY_MIXED_QUERY_PARAMETERS")
  }

  test("a user's mistake is explained by what is wrong and what would be right") {
    def refusal(text: String): String = intercept[Exception](sql(text)) match {
      case refused @ (_: AnalysisException | _: IllegalArgumentException) => refused.getMessage
      case other => fail(other)
    }
    assert(refusal("BUILD SKIPPING INDEX ON seen").contains("is a view"))
    assert(refusal("BUILD SKIPPING INDEX ON lines").contains("not a Parquet table"))
    assert(refusal("SHOW SKIPPING INDEX ON nowhere").contains("cannot be found"))
    assert(refusal("BUILD SKIPPING INDEX ON t COLUMNS (ids)").contains("say one of id, price"))
    assert(refusal("BUILD SKIPPING INDEX ON t COLUMNS (price)").contains("DOUBLE"))
    assert(refusal("BUILD SKIPPING INDEX ON t KINDS (range)").contains("minmax, values, bloom"))
    assert(refusal("REFRESH SKIPPING INDEX ON bare").contains("BUILD SKIPPING INDEX ON"))
    val slip = intercept[ParseException](sql("DROP SKIPPING INDEX t"))
    assert(slip.getMessage.contains("at or near 't': expected ON") && slip.getMessage.contains("line 1, pos 20"))
  }

  test("all other statements are Spark's: with parameters, variables and its own exceptions") {
    assert(spark.sql("SELECT :a + ? AS x".replace("?", ":b"), Map("a" -> 1, "b" -> 2)).head().getInt(0) == 3)
    assert(spark.sql("SELECT ? AS x", Array(7)).head().getInt(0) == 7)
    sql("SET word=SELECT 5 AS x")
    assert(sql("${word}") == Seq(Row(5)))
    assert(intercept[ParseException](sql("SELEKT 1")).getMessage.contains("SELEKT"))
    assert(spark.sessionState.sqlParser.parseMultipartIdentifier("a.`b.c`") == Seq("a", "b.c"))
    assert(spark.sessionState.sqlParser.parseDataType("INT").sql == "INT")
  }

  test("settings refuse what they cannot mean") {
    assert(intercept[Exception](sql("SET spark.penstock.skipping.dynamic.max.keys=many")).getMessage.contains("int"))
    assert(intercept[Exception](sql("SET spark.penstock.skipping.enabled=on")).getMessage.contains("boolean"))
    assert(sql("SET -v").exists(_.getString(0) == "spark.penstock.skipping.enabled"))
  }
}
