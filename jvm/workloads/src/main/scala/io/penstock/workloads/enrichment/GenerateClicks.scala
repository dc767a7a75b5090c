package io.penstock.workloads.enrichment

import scala.collection.immutable.ListMap

import org.apache.spark.sql.functions._
import org.apache.spark.sql.types.{StringType, StructType}
import org.apache.spark.sql.{DataFrame, Encoders, SaveMode, SparkSession}

import io.penstock.application.{Application, Arguments}
import io.penstock.workloads.{Checksum, DataFiles, Manifest, Report}

/**
 * Writes the log of a web shop whose orders are TPC-DS's web sales.
 *
 * Data at `--location` is replaced. An interrupted generation leaves no `_manifest.json`.
 */
object GenerateClicks extends Application {

  private val usage =
    "GenerateClicks --database NAME --location URI --report URI [--clicks-per-line N] [--seed S] [--object-size 128m]"
  private val known = Set("database", "location", "report", "clicks-per-line", "seed", "object-size")

  override def run(arguments: Seq[String]): Int = {
    val options = Arguments.parse(arguments, known, usage)
    val database = options.required("database")
    val location = options.required("location").stripSuffix("/")
    val reportUri = options.required("report")
    val clicksPerLine = options.int("clicks-per-line", 3, atLeast = 1)
    val seed = options.long("seed", 1, atLeast = 0)
    val objectSize = options.size("object-size", "128m")
    val spark = SparkSession.builder().appName("Enrichment: generate clicks").getOrCreate()
    val sales = new WebSales(spark, database)
    Report.to(reportUri, spark.sparkContext.hadoopConfiguration) { report =>
      val files = new ClickFiles(spark, location)
      val (_, elapsedMs) = report.timed(files.write(sales, clicksPerLine, seed, objectSize))
      report.measure("generate clicks", elapsedMs, files.bytes, files.expected().clicks)
    }
    spark.stop()
    0
  }
}

/**
 * The expected clicks: `matched` of all `clicks` belong to `lines` order lines; the checksum covers the order, item,
 * clicks and last referrer of each such line.
 */
case class ExpectedClicks(clicks: Long, matched: Long, lines: Long, checksum: BigDecimal)

/** A log of clicks in the lake as lines of JSON, and the manifest of its content. */
class ClickFiles(spark: SparkSession, location: String) {
  import spark.implicits._

  private val configuration = spark.sparkContext.hadoopConfiguration
  private val manifest = new Manifest(location, configuration)
  private val data = s"$location/log"

  /** In the order of time, as logs are. `objectSize` is what each file is to have, about, in bytes. */
  def write(sales: WebSales, clicksPerLine: Int, seed: Long, objectSize: Long): Unit = {
    manifest.withdraw()
    val stream = ClickStream(sales.items, clicksPerLine, seed)
    describe("sum up what is to be generated")
    val expected = expect(sales, stream)
    val files = math.max(1, math.round(expected.clicks.toDouble * ClickFiles.AverageLine / objectSize)).toInt
    describe(s"generate ${expected.clicks} clicks in $files files")
    sales
      .orders()
      .flatMap(order => stream.clicks(order))
      .repartitionByRange(files, col("at"), col("session"))
      .sortWithinPartitions("at", "session")
      .write
      .mode(SaveMode.Overwrite)
      .option("compression", "none")
      .option("timeZone", "UTC")
      .json(data)
    manifest.write(
      ListMap(
        "rows" -> expected.clicks,
        "order_lines" -> sales.rows.count(),
        "clicks_per_line" -> clicksPerLine,
        "seed" -> seed,
        "object_size" -> objectSize,
        "bytes" -> bytes,
        "expected" -> expected
      )
    )
  }

  def expected(): ExpectedClicks = manifest.read[ClickFiles.Content]().expected

  def bytes: Long = DataFiles.bytes(data, configuration)

  /** Every line; what is no JSON of a click is in the column `unreadable`, the others are null then. */
  def lines(): DataFrame = spark.read
    .schema(ClickFiles.schema)
    .option("columnNameOfCorruptRecord", ClickFiles.Unreadable)
    .option("timeZone", "UTC")
    .json(data)

  // From the generator's numbers, not from the files: what was lost on the way there must not be missing here too.
  private def expect(sales: WebSales, stream: ClickStream): ExpectedClicks = {
    val clicks = sales.orders().map(order => stream.clicks(order).size.toLong).agg(coalesce(sum("value"), lit(0L)))
    val (matched, lines, checksum) =
      ClickFiles
        .interest(sales.orders().flatMap(order => stream.interests(order)).toDF())
        .as[(Long, Long, BigDecimal)]
        .head()
    ExpectedClicks(clicks.as[Long].head(), matched, lines, checksum)
  }

  private def describe(step: String): Unit = spark.sparkContext.setJobDescription(step)
}

object ClickFiles {

  /** In bytes, with the line's end. */
  val AverageLine = 235

  val Unreadable = "unreadable"

  private case class Content(expected: ExpectedClicks)

  private val schema: StructType = Encoders.product[Click].schema.add(Unreadable, StringType)

  /** Clicks, lines and the checksum of rows of `Interest`. */
  def interest(interests: DataFrame): DataFrame = interests.agg(
    coalesce(sum("clicks"), lit(0L)).as("matched"),
    count(lit(1)).as("lines"),
    coalesce(Checksum.of(Seq("order_number", "item", "clicks", "last_referrer").map(col): _*), lit(0))
      .cast("decimal(38,0)")
      .as("checksum")
  )
}
