package io.penstock.skipping.build

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.types.LongType
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.index.{ColumnEntry, IndexedFiles, Kind, PlannedColumn, TableListing}
import io.penstock.skipping.model.{IndexedColumn, Value}

/** What may be recorded of a column, and what may not. */
class ParquetScanTest extends AnyFunSuite with IndexedFiles {

  private def one(name: String, rows: DataFrame, settings: (String, String)*): String = {
    settings.foreach { case (key, value) => spark.conf.set(key, value) }
    try write(name, rows.coalesce(1))
    finally settings.foreach { case (key, _) => spark.conf.unset(key) }
  }

  private def sql(values: String): DataFrame = spark.sql(s"SELECT * FROM VALUES $values AS t(c)")

  private def whole(entry: ColumnEntry): (Option[Long], Option[Value], Option[Value]) =
    (entry.nulls, entry.minimum, entry.maximum)

  private def numbers(low: Long, high: Long) = (Some(Value.Integral(low)), Some(Value.Integral(high)))

  private def assertBounds(path: String, nulls: Long, low: Long, high: Long): Unit = {
    val (minimum, maximum) = numbers(low, high)
    assert(whole(recorded(path, "c").get) == ((Some(nulls), minimum, maximum)))
  }

  test("whole numbers of all widths, days, microseconds and short decimals have bounds in one domain") {
    assertBounds(one("byte", sql("(cast(-128 AS byte)), (cast(127 AS byte)), (null)")), 1, -128, 127)
    assertBounds(one("short", sql("(cast(-7 AS short)), (cast(300 AS short))")), 0, -7, 300)
    assertBounds(one("long", sql(s"(${Long.MaxValue}L), (-${Long.MaxValue}L)")), 0, -Long.MaxValue, Long.MaxValue)
    assertBounds(one("date", sql("(DATE '1970-01-03'), (DATE '0001-01-01')")), 0, -719162, 2)
    assertBounds(one("decimal", sql("(cast(-1.25 AS decimal(9, 2))), (cast(3 AS decimal(9, 2)))")), 0, -125, 300)
    val micros = "spark.sql.parquet.outputTimestampType" -> "TIMESTAMP_MICROS"
    assertBounds(one("micros", sql("(TIMESTAMP '1970-01-01 00:00:01Z')"), micros), 0, 1000000, 1000000)
    val legacy = "spark.sql.parquet.writeLegacyFormat" -> "true"
    val fixed = one("fixed", sql("(cast(-1.25 AS decimal(9, 2))), (cast(3 AS decimal(9, 2)))"), legacy)
    assertBounds(fixed, 0, -125, 300)
  }

  test("times that Parquet orders or Spark reads otherwise have no bounds") {
    val time = sql("(TIMESTAMP '2026-01-01 00:00:00')")
    val int96 = one("int96", time, "spark.sql.parquet.outputTimestampType" -> "INT96")
    assert(recorded(int96, "c").isEmpty)
    val millis = one("millis", time, "spark.sql.parquet.outputTimestampType" -> "TIMESTAMP_MILLIS")
    assert(recorded(millis, "c").isEmpty)
  }

  test("old days of the Julian calendar have no bounds: Spark reads other days than the file has") {
    val legacy = "spark.sql.parquet.datetimeRebaseModeInWrite" -> "LEGACY"
    val old = recorded(one("julian", sql("(DATE '1200-01-01'), (null)"), legacy), "c", Kind.Values).get
    assert(old == ColumnEntry(nulls = Some(1)))
    assertBounds(one("legacy-but-new", sql("(DATE '1970-01-02')"), legacy), 0, 1, 1)
  }

  test("a column with nothing but nulls has no bounds, and its nulls are counted") {
    assert(whole(recorded(one("nulls", sql("(cast(null AS int)), (null)")), "c").get) == ((Some(2L), None, None)))
  }

  test("long strings have bounds that are cut, but still bounds") {
    val long = "é" * 1000
    val path = one("long-strings", spark.sql(s"SELECT '$long' AS c UNION ALL SELECT '$long!'"))
    val entry = recorded(path, "c").get
    def bytes(bound: Option[Value]) = bound.collect { case Value.Bytes(bytes) => bytes }.get
    val (low, high) = (bytes(entry.minimum), bytes(entry.maximum))
    assert(low.length <= 64 && high.length <= 64)
    assert(java.util.Arrays.compareUnsigned(low, long.getBytes(UTF_8)) <= 0)
    assert(java.util.Arrays.compareUnsigned(high, s"$long!".getBytes(UTF_8)) >= 0)
  }

  test("a column that a file lacks, or has of another type or scale, is unknown in it") {
    val path = one("evolving", sql("(1)"))
    sql("(cast(1.5 AS decimal(9, 1)))").selectExpr("c AS d").write.mode("append").parquet(path)
    sql("(cast(7 AS decimal(9, 2)))").selectExpr("c AS d", "'x' AS e").write.mode("append").parquet(path)
    val merged = spark.read.option("mergeSchema", "false").schema("c long, d decimal(9, 2), e binary").parquet(path)
    val asked = IndexedTable(path, table(path).root, merged.schema)
    IndexMaintenance.build(spark, asked, Some(Seq("c", "d", "e")))
    val known = entries(path).map(_.columns)
    // A whole number that is widened keeps its value; a decimal of scale 1 is not one of scale 2, nor text bytes.
    assert(known.flatMap(_.keys).sorted == Seq("c", "d"))
    assert(known.flatMap(_.get("d")).flatMap(_.minimum) == Seq(Value.Integral(700)))
  }

  test("columns without a domain cannot be asked for, and the message says so") {
    val path = one("double", sql("(1.5D)"))
    val refused = intercept[IllegalArgumentException](build(path, Seq("c")))
    assert(refused.getMessage.contains("DOUBLE"))
    assert(intercept[IllegalArgumentException](build(path, Seq("x"))).getMessage.contains("have no column x"))
  }

  private def listed(path: String, kinds: Kind*): Seq[Long] =
    recorded(path, "c", kinds: _*).get.values.get.map { case Value.Integral(n) => n; case other => fail(s"$other") }

  test("value lists hold every value, from dictionaries and from data alike") {
    val rows = spark.range(0, 5000).selectExpr("if(id % 11 = 0, null, (id * 7919) % 501) AS c")
    val expected = (0L until 501L).toSeq
    val encoded = one("encoded", rows)
    val plain = one("plain", rows, "parquet.enable.dictionary" -> "false")
    assert(listed(encoded, Kind.Values) == expected)
    assert(listed(plain, Kind.Values) == expected)
    assert(listed(plain, Kind.Values, Kind.Bloom) == expected)
  }

  test("where there are too many values for a list, there is a bloom filter that holds each, and few others") {
    val path = one("bloom", spark.range(0, 3000).selectExpr("concat('key ', id) AS c"))
    assert(recorded(path, "c", Kind.Values).exists(_.values.isEmpty))
    val bloom = recorded(path, "c", Kind.Values, Kind.Bloom).flatMap(_.bloom).get
    def key(n: Int) = Value.Bytes(s"key $n".getBytes(UTF_8))
    assert((0 until 3000).forall(n => bloom.mightContain(key(n))))
    assert((3000 until 6000).count(n => bloom.mightContain(key(n))) < 150)
  }

  test("values of several row groups are all there") {
    val rows = spark.range(0, 40000).selectExpr("id div 100 AS c", "uuid() AS filler")
    val path = one("groups", rows, "parquet.block.size" -> "262144")
    assert(listed(path, Kind.Values) == (0L until 400L))
    assertBounds(path, 0, 0, 399)
  }

  test("files that are read at once do not get into each other's values") {
    val (files, each) = (48, 1000L)
    val rows = spark.range(0, files * each * 3, 1, files).selectExpr(s"id div (${each * 3}) * $each + id % $each AS c")
    val root = table(write("at-once", rows)).root
    val conf = spark.sessionState.newHadoopConf()
    val listed = TableListing.list(root, conf)
    val plan = Seq(PlannedColumn(IndexedColumn("c", LongType), Set(Kind.Values), "a test", None))
    val scan = new ParquetScan(root, plan, fromData = true, conf)
    def values(outcome: ParquetScan.Outcome) = outcome match {
      case ParquetScan.Known(entry) => entry.columns("c").values.get
      case other => fail(s"$other")
    }
    val truth = listed.map(file => values(scan.read(Iterator.single(file)).next()))
    assert(
      truth.toSet == (0 until files).map(file => (file * each until (file + 1) * each).map(Value.Integral(_))).toSet
    )
    for (_ <- 1 to 50) assert(scan.read(listed.iterator).map(values).toVector == truth)
  }
}
