package io.penstock.workloads.etl

import scala.collection.immutable.ListMap

import org.apache.spark.sql.functions._
import org.apache.spark.sql.{Column, DataFrame, Dataset, SaveMode, SparkSession}

import io.penstock.application.{Application, Arguments}
import io.penstock.workloads.{Checksum, DataFiles, Manifest, Report}

/**
 * Writes lines of delimited text, some of them bad in known ways.
 *
 * Data at `--location` is replaced. An interrupted generation leaves no `_manifest.json`.
 */
object GenerateSales extends Application {

  private val usage =
    "GenerateSales --location URI --report URI [--rows N] [--bad-share 0.001] [--seed S] [--object-size 128m]"
  private val known = Set("location", "report", "rows", "bad-share", "seed", "object-size")

  override def run(arguments: Seq[String]): Int = {
    val options = Arguments.parse(arguments, known, usage)
    val location = options.required("location").stripSuffix("/")
    val reportUri = options.required("report")
    val share = options.read("bad-share", "a share from 0 to 1")(_.toDoubleOption.filter(x => x >= 0 && x <= 1))
    val sales = Sales(
      rows = options.long("rows", 1000000, atLeast = 1),
      badPerMillion = math.round(share.getOrElse(0.001) * 1e6).toInt,
      seed = options.long("seed", 1, atLeast = 0)
    )
    val objectSize = options.size("object-size", "128m")
    val spark = SparkSession.builder().appName(s"ETL: generate ${sales.rows} lines").getOrCreate()
    Report.to(reportUri, spark.sparkContext.hadoopConfiguration) { report =>
      val files = new SaleFiles(spark, location)
      val (_, elapsedMs) = report.timed(files.write(sales, objectSize))
      report.measure("generate", elapsedMs, files.bytes, sales.rows)
    }
    spark.stop()
    0
  }
}

/** Sums over the rows of a table, whatever their order. */
case class Summary(rows: Long, quantity: Long, price: BigDecimal, checksum: BigDecimal)

/** Lines that are no sales: how many of one fault. */
case class FaultCount(fault: String, rows: Long)

/** The expected result of converting the lines. `badChecksum` is that of the bad lines' bytes. */
case class Expected(rows: Long, good: Summary, bad: Seq[FaultCount], badChecksum: BigDecimal)

/** A line of a file. */
case class Line(file: String, bytes: Array[Byte])

/** Lines in the lake, and the manifest that says what is in them. */
class SaleFiles(spark: SparkSession, location: String) {
  import spark.implicits._

  private val configuration = spark.sparkContext.hadoopConfiguration
  private val manifest = new Manifest(location, configuration)
  private val data = s"$location/lines"

  /** `objectSize` is what each file is to have, in bytes. */
  def write(sales: Sales, objectSize: Long): Unit = {
    manifest.withdraw()
    val files = math.max(1, math.round(sales.rows.toDouble * Sales.AverageLine / objectSize)).toInt
    spark.sparkContext.setJobDescription(s"generate ${sales.rows} lines in $files files")
    rows(sales, files)
      .map(row => sales.line(row))
      // Spark's strings are bytes to it: the broken ones pass through as they are.
      .select(col("value").cast("string"))
      .write
      .mode(SaveMode.Overwrite)
      .option("compression", "none")
      .text(data)
    spark.sparkContext.setJobDescription("sum up what was generated")
    manifest.write(
      ListMap(
        "rows" -> sales.rows,
        "bad_per_million" -> sales.badPerMillion,
        "seed" -> sales.seed,
        "object_size" -> objectSize,
        "bytes" -> bytes,
        "expected" -> expected(sales)
      )
    )
  }

  def expected(): Expected = manifest.read[SaleFiles.Content]().expected

  def bytes: Long = DataFiles.bytes(data, configuration)

  def lines(): Dataset[Line] = spark.read
    .option("lineSep", "\n")
    .text(data)
    .select(col("_metadata.file_path").as("file"), col("value").cast("binary").as("bytes"))
    .as[Line]

  // From the generator's numbers, not from the files: what was lost on the way there must not be missing here too.
  private def expected(sales: Sales): Expected = {
    val tasks = 4 * spark.sparkContext.defaultParallelism
    val good = rows(sales, tasks).filter(row => sales.fault(row).isEmpty).map(row => sales.sale(row))
    val bad = rows(sales, tasks).filter(row => sales.fault(row).isDefined).map(row => sales.line(row))
    Expected(
      rows = sales.rows,
      good = SaleFiles.summary(SaleFiles.typed(good.toDF())),
      bad = Fault.all.map(fault => FaultCount(fault.name, sales.bad(fault))),
      badChecksum = bad.select(coalesce(Checksum.of(col("value")), lit(0)).cast("decimal(38,0)")).as[BigDecimal].head()
    )
  }

  private def rows(sales: Sales, tasks: Int): Dataset[Long] =
    spark.range(0, sales.rows, 1, tasks).as[Long](org.apache.spark.sql.Encoders.scalaLong)
}

object SaleFiles {

  private case class Content(expected: Expected)

  private val columns =
    Seq("sale_id", "sold_on", "store", "item", "customer", "quantity", "price", "remark").map(col)

  /** Amounts in the type they are stored in; Spark gives a Scala decimal more room than any amount needs. */
  def typed(sales: DataFrame): DataFrame = sales.withColumn("price", col("price").cast("decimal(7,2)"))

  def summary(sales: DataFrame): Summary = summaryAndCount(sales, lit(false))._1

  /** The summary, and the number of the rows that meet a condition, in one pass. */
  def summaryAndCount(sales: DataFrame, condition: Column): (Summary, Long) = {
    val found = sales
      .agg(count(lit(1)), sum("quantity"), sum("price"), Checksum.of(columns: _*), count_if(condition))
      .head()
    val summary =
      if (found.getLong(0) == 0) Summary(0, 0, 0, 0)
      else Summary(found.getLong(0), found.getLong(1), found.getDecimal(2), found.getDecimal(3))
    (summary, found.getLong(4))
  }
}
