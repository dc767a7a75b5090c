package io.penstock.workloads.etl

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.spark.sql.functions._
import org.apache.spark.sql.{DataFrame, Dataset, SaveMode, SparkSession}

import io.penstock.application.{Application, Arguments, UsageError}
import io.penstock.workloads.{Checksum, DataFiles, Differences, OpenedFiles, Report}

/**
 * Lines of text to Parquet and ORC, bad lines kept aside; each is timed, then read back and compared with what was
 * generated. Exit code 0 also where the result is wrong: the report says so.
 */
object Convert extends Application {

  private val usage = "Convert --input URI --output URI --report URI [--formats parquet,orc]"
  private val known = Set("input", "output", "report", "formats")
  private val possible = Seq("parquet", "orc")

  override def run(arguments: Seq[String]): Int = {
    val options = Arguments.parse(arguments, known, usage)
    val input = options.required("input").stripSuffix("/")
    val output = options.required("output").stripSuffix("/")
    val reportUri = options.required("report")
    val formats = options.list("formats").getOrElse(possible)
    formats.diff(possible).foreach(format => throw new UsageError(s"--formats takes parquet and orc, not '$format'."))
    val spark = SparkSession.builder().appName("ETL: text to tables").getOrCreate()
    Report.to(reportUri, spark.sparkContext.hadoopConfiguration) { report =>
      new MeasuredConversion(spark, new SaleFiles(spark, input), output, report).run(formats)
    }
    spark.stop()
    0
  }
}

private[etl] class MeasuredConversion(spark: SparkSession, files: SaleFiles, output: String, report: Report) {

  private val conversion = new Conversion(spark, files.lines(), output)

  def run(formats: Seq[String]): Unit = {
    val opened = new OpenedFiles(spark)
    val expected = files.expected()
    val bytes = files.bytes
    def timed(name: String, into: String)(work: => Unit): Unit = {
      describe(name)
      val (_, elapsedMs) = report.timed(work)
      val written = DataFiles.bytes(into, spark.sparkContext.hadoopConfiguration)
      report.measure(name, elapsedMs, bytes, expected.rows, "written_bytes" -> written)
    }
    formats.foreach(format => timed(format, conversion.table(format))(conversion.to(format)))
    timed("bad records", conversion.bad)(conversion.setAside())
    judge(formats, new SalesVerdict(expected))
    opened.count().foreach(report.opened)
  }

  private def judge(formats: Seq[String], verdict: SalesVerdict): Unit = {
    describe("check what was written")
    val good = formats.map(format => format -> conversion.summary(format))
    val bad = conversion.faults()
    for ((format, (summary, misplaced)) <- good)
      report.check(format, verdict.good(summary, misplaced), s"${summary.rows} rows, as generated")
    report.check(
      "bad records",
      verdict.bad(bad, conversion.badChecksum()),
      s"${bad.map(_.rows).sum} kept, each as it was"
    )
    val lines = files.lines().count()
    for ((format, (summary, _)) <- good) {
      val right = s"$lines lines are ${summary.rows} good and ${bad.map(_.rows).sum} bad"
      report.check(s"lines, $format", verdict.lines(lines, summary.rows, bad), right)
    }
  }

  private def describe(step: String): Unit = spark.sparkContext.setJobDescription(step)
}

/**
 * A line kept aside. `line` is for people: what is not UTF-8 is replaced in it; `raw`, in base64, is then the line as
 * it was.
 */
case class BadRecord(file: String, fault: String, reason: String, line: String, raw: Option[String])

/**
 * Lines of text to tables: what can be read goes to `<output>/<format>`, by month, and what cannot to `<output>/bad`.
 */
class Conversion(spark: SparkSession, lines: Dataset[Line], output: String) {
  import spark.implicits._

  /** Every line that is no sale, with its file and what is wrong with it. */
  def setAside(): Unit = lines
    .mapPartitions { within =>
      val parser = new SaleParser
      within.flatMap(line => parser.parse(line.bytes).left.toOption.map(Conversion.badRecord(line, _)))
    }
    .write
    .mode(SaveMode.Overwrite)
    .json(bad)

  def to(format: String): Unit = SaleFiles
    .typed(sales.toDF())
    .withColumn(Conversion.Month, Conversion.monthOfSale)
    .write
    .mode(SaveMode.Overwrite)
    .partitionBy(Conversion.Month)
    .format(format)
    .save(table(format))

  def table(format: String): String = s"$output/$format"

  def converted(format: String): DataFrame = spark.read.format(format).load(table(format))

  /** The summary of what was converted, and the number of its rows that are in the partition of another month. */
  def summary(format: String): (Summary, Long) =
    SaleFiles.summaryAndCount(converted(format), Conversion.isMisplaced)

  /** The lines kept aside, by fault. */
  def faults(): Seq[FaultCount] =
    kept.groupBy("fault").agg(count(lit(1)).as("rows")).as[FaultCount].collect().toSeq

  /** The checksum of the bytes of the lines kept aside. */
  def badChecksum(): BigDecimal = {
    val bytes = coalesce(unbase64(col("raw")), encode(col("line"), "UTF-8"))
    kept.select(coalesce(Checksum.of(bytes), lit(0)).cast("decimal(38,0)")).as[BigDecimal].head()
  }

  def bad: String = s"$output/bad"

  private def sales: Dataset[Sale] = lines.mapPartitions { within =>
    val parser = new SaleParser
    within.flatMap(line => parser.parse(line.bytes).toOption)
  }

  // Its schema is given: there may be no bad record to infer it from.
  private def kept: DataFrame =
    spark.read.schema(org.apache.spark.sql.Encoders.product[BadRecord].schema).option("mode", "FAILFAST").json(bad)
}

object Conversion {
  val Month = "sold_month"

  private def monthOfSale = year(col("sold_on")) * 100 + month(col("sold_on"))

  // A partition's value is read from its directory's name, which need not be a number.
  private def isMisplaced = not(col(Month).try_cast("int") <=> monthOfSale)

  private def badRecord(line: Line, rejection: Rejection): BadRecord = BadRecord(
    line.file,
    rejection.fault.name,
    rejection.reason,
    new String(line.bytes, UTF_8),
    Option.when(rejection.fault == Fault.Encoding)(java.util.Base64.getEncoder.encodeToString(line.bytes))
  )
}

/** Checks of converted sales, pure functions of numbers. None where they are as generated, else the differences. */
class SalesVerdict(expected: Expected) {

  /** `misplaced` is the number of rows in the partition of another month. */
  def good(found: Summary, misplaced: Long): Option[String] = Differences.of(
    ("rows", expected.good.rows, found.rows),
    ("sum of quantities", expected.good.quantity, found.quantity),
    ("sum of prices", expected.good.price, found.price),
    ("checksum of all columns", expected.good.checksum, found.checksum),
    ("rows in the partition of another month", 0L, misplaced)
  )

  /** Every bad line was kept, under its own fault, byte for byte. */
  def bad(found: Seq[FaultCount], checksum: BigDecimal): Option[String] = {
    val counts = found.map(one => one.fault -> one.rows).toMap
    val byFault = expected.bad.map(one => (s"lines with a bad ${one.fault}", one.rows, counts.getOrElse(one.fault, 0L)))
    val unknown = (counts -- expected.bad.map(_.fault)).map { case (fault, rows) =>
      (s"lines with a bad $fault", 0L, rows)
    }
    Differences.of((byFault ++ unknown :+ (("checksum of the bad lines", expected.badChecksum, checksum))): _*)
  }

  /** No line is neither good nor bad, and none both. */
  def lines(read: Long, good: Long, bad: Seq[FaultCount]): Option[String] =
    Differences.of(("lines", expected.rows, read), ("good and bad rows", read, good + bad.map(_.rows).sum))
}
