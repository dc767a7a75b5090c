package io.penstock.workloads.etl

import org.apache.spark.sql.SparkSession

import io.penstock.workloads.{Application, Arguments, DataFiles, Report, UsageError}

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
    judge(formats, new Verdict(expected))
  }

  private def judge(formats: Seq[String], verdict: Verdict): Unit = {
    describe("check what was written")
    val good = formats.map(format => format -> SaleFiles.summary(conversion.converted(format)))
    val bad = conversion.faults()
    for ((format, summary) <- good) report.check(format, verdict.good(summary), s"${summary.rows} rows, as generated")
    report.check(
      "bad records",
      verdict.bad(bad, conversion.badChecksum()),
      s"${bad.map(_.rows).sum} kept, each as it was"
    )
    val lines = files.lines().count()
    for ((format, summary) <- good) {
      val right = s"$lines lines are ${summary.rows} good and ${bad.map(_.rows).sum} bad"
      report.check(s"lines, $format", verdict.lines(lines, summary.rows, bad), right)
    }
  }

  private def describe(step: String): Unit = spark.sparkContext.setJobDescription(step)
}
