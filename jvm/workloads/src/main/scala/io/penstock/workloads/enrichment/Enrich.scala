package io.penstock.workloads.enrichment

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.functions._

import io.penstock.workloads.{Application, Arguments, DataFiles, Report}

/**
 * Joins web sales with the log of clicks and writes them by month; then reads back what was written and compares it
 * with the sales and with what the log's generator knows. Exit code 0 also where the result is wrong: the report says
 * so.
 */
object Enrich extends Application {

  private val usage = "Enrich --database NAME --clicks URI --output URI --report URI"
  private val known = Set("database", "clicks", "output", "report")

  override def run(arguments: Seq[String]): Int = {
    val options = Arguments.parse(arguments, known, usage)
    val database = options.required("database")
    val clicks = options.required("clicks").stripSuffix("/")
    val output = options.required("output").stripSuffix("/")
    val reportUri = options.required("report")
    val spark = SparkSession.builder().appName("Enrichment: web sales and clicks").getOrCreate()
    val sales = new WebSales(spark, database)
    Report.to(reportUri, spark.sparkContext.hadoopConfiguration) { report =>
      new MeasuredEnrichment(spark, sales, new ClickFiles(spark, clicks), output, report).run()
    }
    spark.stop()
    0
  }
}

private[enrichment] class MeasuredEnrichment(
    spark: SparkSession,
    sales: WebSales,
    clicks: ClickFiles,
    output: String,
    report: Report
) {

  def run(): Unit = {
    val expected = clicks.expected()
    describe("enrich")
    val (_, elapsedMs) = report.timed(Enrichment.write(Enrichment.enriched(sales.rows, clicks.lines()), output))
    describe("check what was written")
    val source = WebSales.summary(sales.rows, sales.rows.columns.toSeq)
    val written = DataFiles.bytes(output, spark.sparkContext.hadoopConfiguration)
    val rows = source.rows + expected.clicks
    report.measure("enrich", elapsedMs, sales.bytes + clicks.bytes, rows, "written_bytes" -> written)
    judge(source, expected)
  }

  private def judge(source: SalesSummary, expected: ExpectedClicks): Unit = {
    val enriched = spark.read.parquet(output)
    val found = WebSales.summary(enriched, sales.rows.columns.toSeq)
    report.check("sales", Verdict.sales(source, found), s"each of ${source.rows} web sales once, as it was")
    val matched = MeasuredEnrichment.matched(enriched)
    report.check("clicks", Verdict.clicks(expected, matched), s"${expected.matched} clicks at their own order lines")
    val (read, unreadable) = readable()
    report.check("log", Verdict.log(expected, read, unreadable), s"all $read lines of the log read")
    val misplaced = enriched.where(not(col(Enrichment.Month) <=> WebSales.month)).count()
    report.check("placement", Verdict.placement(misplaced), "each sale in the partition of its month")
  }

  private def readable(): (Long, Long) = {
    val found =
      clicks.lines().agg(count(lit(1)), count_if(col("event").isNull || col(ClickFiles.Unreadable).isNotNull)).head()
    (found.getLong(0), found.getLong(1))
  }

  private def describe(step: String): Unit = spark.sparkContext.setJobDescription(step)
}

private[enrichment] object MeasuredEnrichment {

  /** What of the clicks is at the order lines; how many clicks there are in all, the lines do not tell. */
  def matched(enriched: org.apache.spark.sql.DataFrame): ExpectedClicks = {
    val interests = enriched
      .where("clicks > 0")
      .select(
        col("ws_order_number").cast("bigint").as("order_number"),
        col("ws_item_sk").as("item"),
        col("clicks"),
        col("last_referrer")
      )
    val found = ClickFiles.interest(interests).head()
    ExpectedClicks(0, found.getLong(0), found.getLong(1), found.getDecimal(2))
  }
}
