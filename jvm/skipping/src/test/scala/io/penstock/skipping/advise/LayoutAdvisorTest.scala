package io.penstock.skipping.advise

import org.apache.hadoop.conf.Configuration
import org.apache.spark.penstock.Listeners
import org.apache.spark.sql.types.LongType
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.LocalSpark
import io.penstock.skipping.history.{Condition, NoteStore, QueryHistory, ScanNote}
import io.penstock.skipping.index.{ColumnEntry, FileEntry, TableIndex}
import io.penstock.skipping.layout.{ColumnSample, Layout, RangeLevel}
import io.penstock.skipping.model.{IndexedColumn, RangeSet, Value}
import io.penstock.skipping.testing.Properties

class LayoutAdvisorTest extends AnyFunSuite with Properties {

  private val megabyte = 1L << 20
  private val objectBytes = 8 * megabyte

  private def column(values: Iterable[Long]) = ColumnSample.of(values.toSeq.map(value => Some(Value.Integral(value))))

  /** 100 days, and a thousand items that come in any order. */
  private val days = column((0L until 10000).map(_ % 100))
  private val items = column((0L until 10000).map(_ * 7919 % 1000))
  private val orders = column((0L until 10000).map(_ * 1000003L))

  private def table(megabytes: Long, columns: (String, ColumnSample)*) =
    TableFacts(megabytes * megabyte, 10000000, columns.toMap, columns.map(_._1).toSet)

  private def scan(facts: TableFacts, scans: Long, conditions: (String, RangeSet)*) = ScanNote(
    "s3a://lake/sales",
    conditions.map { case (column, keys) => Condition(column, byJoin = true, Some(keys)) },
    scans,
    scans * 100,
    scans * facts.bytes
  )

  private def days(first: Long, last: Long) = "day" -> RangeSet.Integral.interval(first, last)

  test("a table asked for by days large enough for an object each is partitioned by day") {
    val facts = table(1000, "day" -> days, "item" -> items)
    val advice = LayoutAdvisor.advise(Seq(scan(facts, 5, days(10, 19))), facts, None, objectBytes)
    assert(advice.layout.contains(Layout(Seq("day"), Nil)))
    assert(advice.bytesNow == 5 * facts.bytes && math.abs(advice.bytesThen - facts.bytes / 2) < megabyte)
  }

  test("days too small for an object each become ranges, not thousands of tiny objects") {
    val facts = table(80, "day" -> days)
    val advice = LayoutAdvisor.advise(Seq(scan(facts, 1, days(0, 9))), facts, None, objectBytes)
    assert(advice.layout.contains(Layout(Nil, Seq(RangeLevel("day", Some(10))))))
  }

  test("where scans ask for two columns the table is partitioned by one and cut by the other inside") {
    val facts = table(10000, "day" -> days, "item" -> items)
    val asked = Seq(scan(facts, 3, days(3, 4)), scan(facts, 3, "item" -> RangeSet.Integral.interval(0, 40)))
    val advice = LayoutAdvisor.advise(asked, facts, None, objectBytes)
    assert(advice.layout.contains(Layout(Seq("day"), Seq(RangeLevel("item")))))
  }

  test("a column that may not be a directory is cut into ranges") {
    val facts = table(1000, "day" -> days).copy(partitionable = Set.empty)
    val advice = LayoutAdvisor.advise(Seq(scan(facts, 1, days(0, 0))), facts, None, objectBytes)
    assert(advice.layout.exists(layout => layout.partitionBy.isEmpty && layout.columns == Seq("day")))
  }

  test("keys that are all over a column's values are said to be of no use, not laid out by") {
    val facts = table(1000, "order" -> orders)
    val scattered = RangeSet.Integral.points((0L until 10000 by 10).map(_ * 1000003L).toArray)
    val all = RangeSet.Integral.interval(0, Long.MaxValue)
    assert(LayoutAdvisor.advise(Seq(scan(facts, 9, "order" -> scattered)), facts, None, objectBytes).layout.isEmpty)
    val both = table(1000, "order" -> orders, "day" -> days)
    val advice = LayoutAdvisor.advise(Seq(scan(both, 9, "order" -> all, days(1, 1))), both, None, objectBytes)
    assert(advice.layout.exists(_.columns == Seq("day")))
    assert(advice.reasons.exists(reason => reason.startsWith("order:") && reason.contains("no order by it would help")))
  }

  test("a table that is laid out well already stays as it is") {
    val facts = table(1000, "day" -> days)
    val read = scan(facts, 4, days(7, 7)).copy(bytes = 4 * facts.bytes / 100)
    val advice = LayoutAdvisor.advise(Seq(read), facts, None, objectBytes)
    assert(advice.layout.isEmpty && advice.bytesThen == advice.bytesNow)
    assert(advice.reasons.last.contains("not worth a rewrite"))
  }

  test("scans that were noted without an index do not count against a layout that serves them with one") {
    val facts = table(1000, "day" -> days)
    val entries = (0 until 100).map { day =>
      val value = Some(Value.Integral(day))
      FileEntry("", s"f$day", 10 * megabyte, 1, 100000, Map("day" -> ColumnEntry(minimum = value, maximum = value)))
    }
    val index = TableIndex.of("s3a://lake/sales", Seq(IndexedColumn("day", LongType)), entries)
    val all = PresentPartition(Map.empty, 0 until 100, Seq.fill(100)(10 * megabyte))
    val noted = Seq(scan(facts, 5, days(10, 19)))
    val advice = LayoutAdvisor.advise(noted, facts, Some(new PresentLayout(Seq(all), index)), objectBytes)
    assert(advice.layout.isEmpty && advice.bytesNow == 5 * 100 * megabyte)
    assert(advice.reasons.head.endsWith("as it is they would read 500.0 MiB by its index"))
  }

  test("no history, no conditions and a table of one object are reasons of their own") {
    val facts = table(1000, "day" -> days)
    assert(LayoutAdvisor.advise(Nil, facts, None, objectBytes).reasons == Seq("no scan of this table is recorded"))
    val without = table(1000)
    assert(LayoutAdvisor.advise(Seq(scan(without, 1)), without, None, objectBytes).reasons.last.contains("no column"))
    val small = table(10, "day" -> days)
    assert(
      LayoutAdvisor.advise(Seq(scan(small, 1, days(1, 1))), small, None, objectBytes).reasons.last.contains("too small")
    )
  }

  test("a join whose keys were not seen promises nothing") {
    val facts = table(1000, "day" -> days)
    val blind = scan(facts, 5).copy(conditions = Seq(Condition("day", byJoin = true, None)))
    assert(LayoutAdvisor.advise(Seq(blind), facts, None, objectBytes).layout.isEmpty)
  }

  test("advice never promises less than nothing, nor more than is read; the order of notes does not matter") {
    val asked = for {
      first <- Gen.choose(0L, 99L)
      length <- Gen.choose(0L, 99L)
      name <- Gen.oneOf("day", "item")
      scans <- Gen.choose(1L, 5L)
    } yield (name, RangeSet.Integral.interval(first, first + length), scans)
    val facts = table(500, "day" -> days, "item" -> items)
    forAll(Gen.listOfN(4, asked)) { asked =>
      val notes = asked.map { case (name, keys, scans) => scan(facts, scans, name -> keys) }
      val advice = LayoutAdvisor.advise(notes, facts, None, objectBytes)
      assert(advice.bytesThen >= 0 && advice.bytesThen <= advice.bytesNow)
      assert(LayoutAdvisor.advise(notes.reverse, facts, None, objectBytes).layout == advice.layout)
      val (there, back) = (new Costs(notes, facts), new Costs(notes.reverse, facts))
      assert(new Candidates(facts, objectBytes).all.forall(candidate => there.of(candidate) == back.of(candidate)))
    }
  }
}

class TableAdviceTest extends AnyFunSuite with LocalSpark {

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
    new NoteStore(place, new Configuration).of(root).map(_.bytes).sum
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
    assert(first("why").exists(_.startsWith("day: in conditions of 1 scan by joins, on average for 25 %")))

    spark.sql("REWRITE TABLE sales AS ADVISED")
    val after = bytesRead("sales", query)
    assert(after < before / 3 && math.abs(after - first("bytes then").head.toLong) < before / 10)
    assert(
      advice("sales")("layout") == Seq(null) && advice("sales")("why").last
        .contains("not worth a rewrite")
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
