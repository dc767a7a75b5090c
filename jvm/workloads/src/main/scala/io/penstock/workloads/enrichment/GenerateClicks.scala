package io.penstock.workloads.enrichment

import org.apache.spark.sql.SparkSession

import io.penstock.workloads.{Application, Arguments, Report}

/**
 * Writes the log of a web shop whose orders are TPC-DS's web sales.
 *
 * What is at `--location` is replaced. Generation that was cut short leaves no `_manifest.json`.
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
