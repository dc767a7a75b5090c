package io.penstock.workloads.etl

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.spark.sql.functions._
import org.apache.spark.sql.{DataFrame, Dataset, SaveMode, SparkSession}

import io.penstock.workloads.Checksum

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
    .withColumn(Conversion.Month, year(col("sold_on")) * 100 + month(col("sold_on")))
    .write
    .mode(SaveMode.Overwrite)
    .partitionBy(Conversion.Month)
    .format(format)
    .save(table(format))

  def table(format: String): String = s"$output/$format"

  def converted(format: String): DataFrame = spark.read.format(format).load(table(format))

  /** The lines kept aside, by fault. */
  def faults(): Seq[FaultCount] =
    kept.groupBy("fault").agg(count(lit(1)).as("rows")).as[FaultCount].collect().toSeq

  /** Of the bytes of the lines kept aside. */
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

  private def badRecord(line: Line, rejection: Rejection): BadRecord = BadRecord(
    line.file,
    rejection.fault.name,
    rejection.reason,
    new String(line.bytes, UTF_8),
    Option.when(rejection.fault == Fault.Encoding)(java.util.Base64.getEncoder.encodeToString(line.bytes))
  )
}
