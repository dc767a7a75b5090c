package io.penstock.skipping.advise

import org.apache.hadoop.conf.Configuration
import org.apache.spark.penstock.Listeners
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.LocalSpark
import io.penstock.skipping.history.{History, QueryHistory}

class TableAdviceSuite extends AnyFunSuite with LocalSpark {

  override protected def settings: Map[String, String] = Map(
    "spark.sql.queryExecutionListeners" -> classOf[QueryHistory].getName,
    "spark.penstock.skipping.layout.object.size" -> "8k"
  )

  private val query = "SELECT sum(id) FROM sales JOIN days USING (day) WHERE week = 1"

  /** What the query read, noted in a directory of its own. */
  private def bytesRead(): Long = {
    val place = directory.resolve(s"history-${System.nanoTime}").toUri.toString
    spark.conf.set("spark.penstock.skipping.history", place)
    spark.sql(query).collect()
    Listeners.settle(spark.sparkContext)
    val root = spark.sql("DESCRIBE EXTENDED sales").where("col_name = 'Location'").head().getString(1)
    new History(place, new Configuration).of(root).map(_.bytes).sum
  }

  private def advice(): Map[String, Seq[String]] =
    spark.sql("SHOW SKIPPING ADVICE ON sales").collect().toSeq.groupMap(_.getString(0))(_.getString(1))

  test("a table is laid out as its queries are best served, they read what was promised, and then it may stay") {
    spark.sql("CREATE TABLE days USING parquet AS SELECT cast(id AS int) AS day, id DIV 2 AS week FROM range(8)")
    spark.sql("""CREATE TABLE sales USING parquet AS SELECT /*+ REPARTITION(3) */
                |id, cast(id % 8 AS int) AS day, uuid() AS note FROM range(4000)""".stripMargin)
    val before = bytesRead()
    val first = advice()
    assert(first("layout") == Seq("PARTITIONED BY (`day`)") && first("scans") == Seq("1"))
    assert(first("bytes now") == Seq(before.toString) && first("bytes then").head.toLong < before / 3)
    assert(first("why").exists(_.startsWith("day: asked for in 1 scan by joins, on average for 25 %")))

    spark.sql("REWRITE TABLE sales AS ADVISED")
    val after = bytesRead()
    assert(after < before / 3 && math.abs(after - first("bytes then").head.toLong) < before / 10)
    assert(advice()("layout") == Seq(null) && advice()("why").last.contains("not worth writing the table again"))
    val nothing = intercept[IllegalArgumentException](spark.sql("REWRITE TABLE sales AS ADVISED"))
    assert(nothing.getMessage.contains("No other layout"))
  }

  test("without a history it is said which setting keeps one") {
    spark.conf.set("spark.penstock.skipping.history", "")
    val refused = intercept[IllegalArgumentException](spark.sql("SHOW SKIPPING ADVICE ON days"))
    assert(refused.getMessage.contains("spark.penstock.skipping.history"))
  }
}
