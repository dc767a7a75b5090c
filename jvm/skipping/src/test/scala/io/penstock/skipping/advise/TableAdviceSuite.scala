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

  /** What the query read of the table, noted in a directory of its own. */
  private def bytesRead(table: String, query: String): Long = {
    val place = directory.resolve(s"history-${System.nanoTime}").toUri.toString
    spark.conf.set("spark.penstock.skipping.history", place)
    spark.sql(query).collect()
    Listeners.settle(spark.sparkContext)
    val root = spark.sql(s"DESCRIBE EXTENDED $table").where("col_name = 'Location'").head().getString(1)
    new History(place, new Configuration).of(root).map(_.bytes).sum
  }

  private def advice(table: String): Map[String, Seq[String]] =
    spark.sql(s"SHOW SKIPPING ADVICE ON $table").collect().toSeq.groupMap(_.getString(0))(_.getString(1))

  test("a table is laid out as its queries are best served, they read what was promised, and then it may stay") {
    spark.sql("CREATE TABLE days USING parquet AS SELECT cast(id AS int) AS day, id DIV 2 AS week FROM range(8)")
    spark.sql("""CREATE TABLE sales USING parquet AS SELECT /*+ REPARTITION(3) */
                |id, cast(id % 8 AS int) AS day, uuid() AS note FROM range(4000)""".stripMargin)
    val before = bytesRead("sales", query)
    val first = advice("sales")
    assert(first("layout") == Seq("PARTITIONED BY (`day`)") && first("scans") == Seq("1"))
    assert(first("bytes now") == Seq(before.toString) && first("bytes then").head.toLong < before / 3)
    assert(first("why").exists(_.startsWith("day: asked for in 1 scan by joins, on average for 25 %")))

    spark.sql("REWRITE TABLE sales AS ADVISED")
    val after = bytesRead("sales", query)
    assert(after < before / 3 && math.abs(after - first("bytes then").head.toLong) < before / 10)
    assert(
      advice("sales")("layout") == Seq(null) && advice("sales")("why").last
        .contains("not worth writing the table again")
    )
    val nothing = intercept[IllegalArgumentException](spark.sql("REWRITE TABLE sales AS ADVISED"))
    assert(nothing.getMessage.contains("No other layout"))
  }

  test("a table that its index and its partitions serve well stays, though what is noted was read without them") {
    // A file for each day in each partition.
    spark.sql("""CREATE TABLE sold USING parquet PARTITIONED BY (shop) AS SELECT id, cast(id DIV 500 AS int) AS day,
                |uuid() AS note, if(id % 2 = 0, 'north', null) AS shop FROM range(0, 4000, 1, 8)""".stripMargin)
    val asked = "SELECT id FROM sold WHERE day = 3 UNION ALL SELECT id FROM sold WHERE day = 2 AND shop = 'north'"
    val before = bytesRead("sold", asked)
    assert(advice("sold")("layout") != Seq(null))
    spark.sql("BUILD SKIPPING INDEX ON sold COLUMNS (day)")
    val indexed = advice("sold")
    assert(indexed("layout") == Seq(null) && indexed("scans") == Seq("2"))
    assert(indexed("bytes now").head.toLong < before / 4)
    assert(indexed("bytes now") == Seq(bytesRead("sold", asked).toString))
  }

  test("what was asked of a column that has another type now is left out") {
    spark.sql("CREATE TABLE made USING parquet AS SELECT /*+ REPARTITION(4) */ id, uuid() AS note FROM range(4000)")
    bytesRead("made", "SELECT max(note) FROM made WHERE id = 3")
    spark.sql("DROP TABLE made")
    spark.sql("CREATE TABLE made USING parquet AS SELECT string(id) AS id, uuid() AS note FROM range(4000)")
    assert(advice("made")("layout") == Seq(null) && advice("made")("scans") == Seq("1"))
  }

  test("without a history it is said which setting keeps one") {
    spark.conf.set("spark.penstock.skipping.history", "")
    val refused = intercept[IllegalArgumentException](spark.sql("SHOW SKIPPING ADVICE ON days"))
    assert(refused.getMessage.contains("spark.penstock.skipping.history"))
  }
}
