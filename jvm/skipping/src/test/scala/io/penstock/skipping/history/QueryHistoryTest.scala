package io.penstock.skipping.history

import java.nio.file.Files

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.penstock.Listeners
import org.apache.spark.scheduler.{SparkListener, SparkListenerJobEnd}
import org.apache.spark.sql.functions.col
import org.scalatest.concurrent.Eventually._
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.SpanSugar._

import io.penstock.skipping.LocalSpark
import io.penstock.skipping.build.{IndexMaintenance, IndexedTable}
import io.penstock.skipping.model.RangeSet

class QueryHistoryTest extends AnyFunSuite with LocalSpark {

  override protected def settings: Map[String, String] =
    Map("spark.sql.queryExecutionListeners" -> classOf[QueryHistory].getName)

  private lazy val sales = directory.resolve("sales").toUri.toString.stripSuffix("/").replace("file:///", "file:/")
  private lazy val history = {
    spark
      .range(1000)
      .selectExpr("id", "id % 10 AS day", "id % 7 AS shop", "cast(id % 3 AS string) AS kind")
      .createOrReplaceTempView("rows")
    spark.sql(s"CREATE TABLE sales USING parquet PARTITIONED BY (shop) LOCATION '$sales' AS SELECT * FROM rows")
    spark.sql("CREATE TABLE days USING parquet AS SELECT id AS day, id % 2 AS odd, id AS other FROM range(20)")
    spark.sql("CREATE TABLE shops USING parquet AS SELECT cast(id AS int) AS shop, id AS manager FROM range(7)")
    directory.resolve("history").toUri.toString
  }
  private var place = ""

  /** Of the table of sales, in a directory of its own: another's first notes are written at once. */
  private def noted(query: String): Seq[ScanNote] = {
    place = s"$history/${System.nanoTime}"
    spark.conf.set("spark.penstock.skipping.history", place)
    spark.sql(query).collect()
    Listeners.settle(spark.sparkContext)
    new NoteStore(place, new Configuration).of(sales)
  }

  private def only(query: String): ScanNote = noted(query) match {
    case Seq(note) => note
    case others => fail(s"$others")
  }

  private def asText(condition: Condition): (String, Boolean, Seq[(Long, Long)]) =
    (
      condition.column,
      condition.byJoin,
      condition.keys.toSeq.flatMap {
        case numbers: RangeSet.Integral => numbers.lows.toSeq.zip(numbers.highs)
        case _ => Nil
      }
    )

  test("a query's own literals are noted, of partition columns too, with what was read for them") {
    val note = only("SELECT sum(id) FROM sales WHERE day BETWEEN 3 AND 5 AND shop IN (1, 2) AND kind = '1'")
    val asked = note.conditions.map(asText)
    assert(asked.contains(("day", false, Seq((3L, 5L)))) && asked.contains(("shop", false, Seq((1L, 2L)))))
    assert(note.conditions.map(_.column).contains("kind"))
    assert(note.scans == 1 && note.files >= 2 && note.bytes > 0)
  }

  test("the keys of a broadcast side are noted as those that came, not as its filter") {
    val note = only("SELECT sum(id) FROM sales JOIN days USING (day) WHERE odd = 1 AND other < 6")
    assert(note.conditions.map(asText) == Seq(("day", true, Seq((1L, 1L), (3L, 3L), (5L, 5L)))))
  }

  test("keys reach a column through casts, other names, other joins and aggregates") {
    val note = only(
      """SELECT s, count(*) FROM (SELECT shop + 0L AS no, shop AS s, day AS d FROM sales) t
        |JOIN days ON days.day = t.d JOIN shops ON cast(shops.shop AS bigint) = t.s
        |WHERE other = 4 AND manager = 6 GROUP BY s""".stripMargin
    )
    assert(note.conditions.map(asText) == Seq(("day", true, Seq((4L, 4L))), ("shop", true, Seq((6L, 6L)))))
  }

  test("rows that an outer or anti join keeps ask for nothing") {
    for (kind <- Seq("LEFT OUTER", "LEFT ANTI")) {
      val notes = noted(s"SELECT count(*) FROM sales $kind JOIN (SELECT day AS d FROM days WHERE other = 1) ON day = d")
      assert(notes.isEmpty, kind)
    }
  }

  test("of a shuffled join it is noted that it was, its keys were not seen") {
    val note = only("SELECT /*+ MERGE(days) */ sum(id) FROM sales JOIN days USING (day) WHERE other = 6")
    assert(note.conditions.contains(Condition("day", byJoin = true, None)))
  }

  test("keys that files were skipped by are noted, of a run beside the query and through other joins too") {
    val items = directory.resolve("items").toUri.toString.stripSuffix("/").replace("file:///", "file:/")
    spark
      .range(1000)
      .selectExpr("id AS item", "id div 100 AS shelf")
      .repartitionByRange(5, col("item"))
      .write
      .parquet(items)
    IndexMaintenance.build(spark, IndexedTable.at(spark, items), Some(Seq("item")))
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try {
      noted(s"SELECT sum(shelf) FROM parquet.`$items` JOIN days ON item = day WHERE other IN (3, 5)")
      val notes = new NoteStore(place, new Configuration).of(items)
      assert(notes.map(_.conditions.map(asText)) == Seq(Seq(("item", true, Seq((3L, 3L), (5L, 5L))))))
    } finally spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
  }

  test("the conditions of a table's queries reach the choice of its index's columns") {
    noted("SELECT sum(id) FROM sales WHERE day = 3")
    val asked = Questions.of(spark, new Path(sales))
    assert(asked.map(question => (question.column, question.scans)) == Seq(("day", 1L)))
    spark.conf.set("spark.penstock.skipping.history", "nowhere://history")
    assert(Questions.of(spark, new Path(sales)).isEmpty, "a history that cannot be read is as good as none")
  }

  test("a table of which partitions were pruned is the same table by path and in the catalog") {
    val notes =
      noted("SELECT sum(id) FROM sales WHERE shop = 3") ++ noted(s"SELECT sum(id) FROM parquet.`$sales` WHERE shop = 3")
    assert(notes.map(_.table).distinct == Seq(sales))
  }

  test("notes of another application are read too; a damaged one is left out; the directory does not grow for ever") {
    noted("SELECT sum(id) FROM sales WHERE day = 1")
    val root = java.nio.file.Path.of(new java.net.URI(place))
    for (i <- 1 to 600)
      Files.writeString(root.resolve(s"old-$i.json"), """{"version":1,"notes":[{"table":"t","scans":1}]}""")
    Files.writeString(root.resolve("damaged.json"), "{")
    val history = new NoteStore(place, new Configuration)
    assert(history.of("t").map(_.scans).sum >= 498 && history.of("t").size == 1)
    history.prune()
    assert(root.toFile.list.count(name => name.endsWith(".json") && !name.startsWith(".")) == 500)
  }

  test("a history that cannot be written fails no query") {
    val file = Files.createFile(directory.resolve("a-file"))
    spark.conf.set("spark.penstock.skipping.history", file.toUri.toString + "/below")
    assert(spark.sql("SELECT count(*) FROM sales WHERE day = 1").head().getLong(0) == 100)
    Listeners.settle(spark.sparkContext)
  }

  // The last test: no session is left after it.
  test("a query whose end is reported while the application stops is noted, with the keys of its joins") {
    val place = s"$history/stopping"
    spark.conf.set("spark.penstock.skipping.history", place)
    val context = spark.sparkContext
    context.addSparkListener(new SparkListener {
      override def onJobEnd(end: SparkListenerJobEnd): Unit = eventually(timeout(30.seconds))(assert(context.isStopped))
    })
    spark.sql("SELECT sum(id) FROM sales JOIN days USING (day) WHERE other = 4").collect()
    spark.stop()
    val notes = new NoteStore(place, new Configuration).of(sales)
    assert(notes.map(_.conditions.map(asText)) == Seq(Seq(("day", true, Seq((4L, 4L))))))
  }
}
