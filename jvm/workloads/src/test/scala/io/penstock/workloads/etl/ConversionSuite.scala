package io.penstock.workloads.etl

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.functions._
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.workloads.LocalSpark

class ConversionSuite extends AnyFunSuite with LocalSpark {

  private val sales = Sales(rows = 3000, badPerMillion = 20000, seed = 3)
  private lazy val files = {
    val files = new SaleFiles(spark, uri("input"))
    files.write(sales, objectSize = 64 << 10)
    files
  }
  private lazy val conversion = {
    val conversion = new Conversion(spark, files.lines(), uri("output"))
    conversion.to("parquet")
    conversion.to("orc")
    conversion.setAside()
    conversion
  }
  private lazy val verdict = new SalesVerdict(files.expected())

  private def uri(name: String) = directory.resolve(name).toUri.toString.stripSuffix("/")

  private def written(name: String): Seq[Path] =
    Files.walk(directory.resolve(name)).iterator.asScala.filter(_.getFileName.toString.startsWith("part-")).toSeq

  test("the lines are the same however many files they are in") {
    val other = new SaleFiles(spark, uri("one-file"))
    other.write(sales, objectSize = 1 << 30)
    val expected = files.expected()
    assert(written("input").size > 2 && written("one-file").size == 1)
    def sorted(files: SaleFiles) = files.lines().collect().map(line => new String(line.bytes, "ISO-8859-1")).sorted
    assert(sorted(files).sameElements(sorted(other)))
    assert(expected == other.expected())
  }

  test("good and bad together are every line, and both formats hold what was generated") {
    val bad = conversion.faults()
    assert(bad.map(one => one.fault -> one.rows).toMap == Fault.all.map(_.name -> 12L).toMap)
    assert(verdict.bad(bad, conversion.badChecksum()).isEmpty)
    for (format <- Seq("parquet", "orc")) {
      val (summary, misplaced) = conversion.summary(format)
      assert(verdict.good(summary, misplaced).isEmpty)
      assert(verdict.lines(files.lines().count(), summary.rows, bad).isEmpty)
      assert(summary.rows == 2940)
    }
  }

  test("a sale is in the partition of its month") {
    val months =
      conversion.converted("orc").select(col("sold_month"), year(col("sold_on")) * 100 + month(col("sold_on")))
    assert(months.distinct().collect().forall(row => row.getInt(0) == row.getInt(1)))
    assert(months.distinct().count() == 12)
  }

  test("a row in the partition of another month is called wrong, whatever that partition's name") {
    for (format <- Seq("parquet", "orc"); wrong <- Seq("199902", "__HIVE_DEFAULT_PARTITION__", "other")) {
      val moved = new Conversion(spark, files.lines(), uri(s"moved-$format-$wrong"))
      moved.to(format)
      val table = directory.resolve(s"moved-$format-$wrong/$format")
      Files.move(table.resolve("sold_month=199802"), table.resolve(s"sold_month=$wrong"))
      val (summary, misplaced) = moved.summary(format)
      val february = conversion.converted(format).where("sold_month = 199802").count()
      assert(february > 0 && summary.rows == 2940)
      val expected = s"rows in the partition of another month: $february instead of 0"
      assert(verdict.good(summary, misplaced).contains(expected))
    }
  }

  test("a bad line is kept with its file and the reason, and can be had back byte for byte") {
    import spark.implicits._
    val kept = spark.read.json(conversion.bad).as[BadRecord].collect()
    val encoding = kept.filter(_.fault == "encoding")
    assert(kept.forall(record => record.file.contains("/input/lines/part-") && record.reason.nonEmpty))
    assert(encoding.forall(_.raw.isDefined) && kept.diff(encoding).forall(_.raw.isEmpty))
    assert(encoding.head.line.contains('\ufffd'))
  }

  test("a row that was lost, doubled or changed is called wrong") {
    val good = conversion.converted("parquet")
    def wrong(tampered: org.apache.spark.sql.DataFrame) = verdict.good(SaleFiles.summary(tampered), 0).get
    assert(wrong(good.where("sale_id <> 5")).contains("rows: 2939 instead of 2940"))
    assert(wrong(good.union(good.where("sale_id = 5"))).contains("rows: 2941"))
    val mistold = good.withColumn("remark", when(col("sale_id") === 5, "?").otherwise(col("remark")))
    assert(wrong(mistold).startsWith("checksum of all columns"))
    val cheaper = good.withColumn("price", col("price") - when(col("sale_id") === 5, 0.01).otherwise(0))
    assert(wrong(SaleFiles.typed(cheaper)).startsWith("sum of prices"))
    assert(wrong(good.limit(0)).contains("rows: 0"))
  }

  test("a bad line that was lost, put under another fault or changed is called wrong") {
    val bad = conversion.faults()
    val checksum = conversion.badChecksum()
    assert(verdict.bad(bad.tail, checksum).get.contains("0 instead of 12"))
    val moved = bad.updated(0, bad.head.copy(fault = "other"))
    assert(verdict.bad(moved, checksum).get.contains("bad other: 12 instead of 0"))
    assert(verdict.bad(bad, checksum + 1).get.contains("checksum of the bad lines"))
    assert(verdict.lines(3000, 2941, bad).get.contains("3001 instead of 3000"))
    assert(verdict.lines(2999, 2939, bad).get.contains("lines: 2999 instead of 3000"))
  }

  test("the applications report what they timed and that it was right, also without a bad line") {
    val input = uri("clean input")
    new SaleFiles(spark, input).write(sales.copy(badPerMillion = 0), objectSize = 1 << 20)
    val report = directory.resolve("report.jsonl")
    io.penstock.workloads.Report.to(report.toUri.toString, spark.sparkContext.hadoopConfiguration) { report =>
      new MeasuredConversion(spark, new SaleFiles(spark, input), uri("clean output"), report).run(Seq("orc"))
    }
    val lines = Files.readAllLines(report).asScala
    assert(lines.count(_.contains("\"kind\":\"measure\"")) == 2)
    assert(lines.count(_.contains("\"right\":true")) == 3 && !lines.exists(_.contains("\"right\":false")))
    val written = io.penstock.workloads.DataFiles.under(uri("clean output/orc"), spark.sparkContext.hadoopConfiguration)
    // The text for the table, for the bad records and to be counted; no bad record is there to be read.
    assert(lines.last == s"""{"kind":"opened","files":${3 + written.size}}""")
  }
}
