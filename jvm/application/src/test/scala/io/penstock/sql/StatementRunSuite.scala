package io.penstock.sql

import java.io.FileNotFoundException
import java.nio.file.Files

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.spark.SparkException
import org.apache.spark.sql.SparkSession
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

class StatementRunSuite extends AnyFunSuite with BeforeAndAfterAll {

  private lazy val spark = SparkSession
    .builder()
    .master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.catalogImplementation", "in-memory")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .getOrCreate()

  override def afterAll(): Unit = {
    spark.stop()
    super.afterAll()
  }

  private def run(sql: String, limit: Option[Int] = None) = new StatementRun(spark, limit).execute(sql)

  test("every kind of value has a JSON form") {
    val result = run(
      "SELECT 1, 2.50BD, 'a', true, NULL, DATE'2026-01-02', array(1, 2), map('k', 1), named_struct('f', 'x'), double('NaN')"
    )
    assert(
      result.record("rows") == Seq(
        Seq[Any](1, "2.50", "a", true, null, "2026-01-02", Seq(1, 2), Map("k" -> 1), Map("f" -> "x"), "NaN")
      )
    )
  }

  test("a point in time is shown in the session's zone, wherever it is, as a cast to a string shows it") {
    val machine = java.util.TimeZone.getDefault
    // Berlin has no half past two in the first of these nights.
    val times = Seq("2026-03-29 02:30:00", "2026-07-01 12:00:00.25", "1500-02-03 04:05:06", "1969-12-31 23:59:59.9")
    for ((own, zone) <- Seq("Europe/Berlin" -> "UTC", "UTC" -> "Asia/Tokyo"); java8 <- Seq(false, true)) {
      java.util.TimeZone.setDefault(java.util.TimeZone.getTimeZone(own))
      spark.conf.set("spark.sql.session.timeZone", zone)
      spark.conf.set("spark.sql.datetime.java8API.enabled", java8)
      try
        for (time <- times) {
          val it = s"TIMESTAMP'$time'"
          val row = run(s"SELECT $it, array($it), map('k', $it), named_struct('f', $it), CAST($it AS STRING)")
          val shown = if (time.contains('.')) time else s"$time.0"
          val expected = Seq[Any](shown, Seq(shown), Map("k" -> shown), Map("f" -> shown), time)
          assert(row.record("rows") == Seq(expected), own)
        }
      finally {
        java.util.TimeZone.setDefault(machine)
        spark.conf.unset("spark.sql.session.timeZone")
        spark.conf.unset("spark.sql.datetime.java8API.enabled")
      }
    }
  }

  test("fields of one name keep their values") {
    val result = run("SELECT named_struct('a', 1, 'a', 2, 'a_1', 3, 'b', 4)")
    assert(result.record("rows") == Seq(Seq(Map("a" -> 1, "a_2" -> 2, "a_1" -> 3, "b" -> 4))))
  }

  test("the largest limit there is cuts nothing") {
    val result = run("SELECT * FROM range(3)", Some(Int.MaxValue))
    assert(result.error.isEmpty && result.record("truncated") == false)
    assert(result.record("rows") == Seq(Seq(0L), Seq(1L), Seq(2L)))
  }

  test("a raw text is one text to Spark where the splitter takes it for one") {
    val statements = StatementSplitter.split("""SELECT r'a;\', 'b', R"c;\"; SELECT date'2026-01-02'""")
    assert(statements.map(run(_).record("rows")) == Seq(Seq(Seq("a;\\", "b", "c;\\")), Seq(Seq("2026-01-02"))))
  }

  test("a cut answer says so, a full one does not") {
    assert(run("SELECT * FROM range(3)", Some(2)).record("truncated") == true)
    assert(run("SELECT * FROM range(2)", Some(2)).record("truncated") == false)
    assert(run("SELECT * FROM range(2)").record("truncated") == false)
  }

  test("an error names what is wrong, without a plan or a stack trace") {
    val unknown = run("SELECT nothing FROM range(1)").error.get
    assert(unknown.contains("nothing") && !unknown.contains("Project") && !unknown.contains("\tat "))
    val atRunTime = run("SELECT 1 / (id - id) FROM range(1)").error.get
    assert(atRunTime.contains("DIVIDE_BY_ZERO") && !atRunTime.contains("stage failure"))
  }

  test("a file that is gone when a statement reads it is explained") {
    val table = Files.createTempDirectory("lost")
    assert(run(s"CREATE TABLE lost USING parquet LOCATION '${table.toUri}' AS SELECT 1 AS id").error.isEmpty)
    assert(run("SELECT * FROM lost").record("rows") == Seq(Seq(1)))
    Using.resource(Files.list(table))(_.iterator.asScala.toSeq).foreach(Files.delete)
    val gone = run("SELECT * FROM lost").error.get
    assert(gone.startsWith("A table was changed or dropped while the statement read it\nWhy: a file is gone: "))
    assert(gone.contains("part-0") && gone.linesIterator.length == 3)
  }

  test("of a failed job, its users see the cause and no stack") {
    val job =
      "Job aborted: Lost task 0.0: java.io.IOException: no\n\tat a.B.c(B.java:1)\n\t... 43 more\nDriver stacktrace:"
    assert(SqlErrors.message(new SparkException(job)) == "Job aborted: Lost task 0.0: java.io.IOException: no")
    val cause = new IllegalStateException("outer", new IllegalArgumentException("inner"))
    assert(SqlErrors.message(new SparkException(job, cause)) == "inner")
    val gone = new RuntimeException("Failed to open", new FileNotFoundException("No such file: s3a://lake/a"))
    assert(SqlErrors.message(new SparkException(job, gone)).contains("Why: a file is gone: No such file: s3a://lake/a"))
  }
}
