package io.penstock.workloads.etl

import org.apache.spark.sql.SparkSession

import io.penstock.workloads.{Application, Arguments, Report}

/**
 * Writes lines of delimited text, some of them bad in known ways.
 *
 * What is at `--location` is replaced. Generation that was cut short leaves no `_manifest.json`.
 */
object Generate extends Application {

  private val usage =
    "Generate --location URI --report URI [--rows N] [--bad-share 0.001] [--seed S] [--object-size 128m]"
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
