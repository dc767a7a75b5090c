package io.penstock.workloads.enrichment

import org.apache.spark.sql.functions._
import org.apache.spark.sql.{Column, DataFrame, Dataset, SparkSession}

import io.penstock.application.{Application, Arguments, UsageError}
import io.penstock.workloads.tpcds.FactTable
import io.penstock.workloads.{Checksum, DataFiles, OpenedFiles, Report}

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
    val opened = new OpenedFiles(spark)
    val expected = clicks.expected()
    describe("enrich")
    val (_, elapsedMs) = report.timed(Enrichment.write(Enrichment.enriched(sales.rows, clicks.lines()), output))
    describe("check what was written")
    val source = WebSales.summary(sales.rows, sales.rows.columns.toSeq)
    val written = DataFiles.bytes(output, spark.sparkContext.hadoopConfiguration)
    val rows = source.rows + expected.clicks
    report.measure("enrich", elapsedMs, sales.bytes + clicks.bytes, rows, "written_bytes" -> written)
    judge(source, expected)
    opened.count().foreach(report.opened)
  }

  private def judge(source: SalesSummary, expected: ExpectedClicks): Unit = {
    val enriched = spark.read.parquet(output)
    val found = WebSales.summary(enriched, sales.rows.columns.toSeq)
    report.check("sales", EnrichmentVerdict.sales(source, found), s"each of ${source.rows} web sales once, as it was")
    val matched = MeasuredEnrichment.matched(enriched)
    report.check(
      "clicks",
      EnrichmentVerdict.clicks(expected, matched),
      s"${expected.matched} clicks at their own order lines"
    )
    val (read, unreadable) = readable()
    report.check("log", EnrichmentVerdict.log(expected, read, unreadable), s"all $read lines of the log read")
    val misplaced = enriched.where(not(col(Enrichment.Month) <=> WebSales.month)).count()
    report.check("placement", EnrichmentVerdict.placement(misplaced), "each sale in the partition of its month")
  }

  private def readable(): (Long, Long) = {
    val found =
      clicks.lines().agg(count(lit(1)), count_if(col("event").isNull || col(ClickFiles.Unreadable).isNotNull)).head()
    (found.getLong(0), found.getLong(1))
  }

  private def describe(step: String): Unit = spark.sparkContext.setJobDescription(step)
}

private[enrichment] object MeasuredEnrichment {

  /** The clicks at the order lines; the lines do not give the number of all clicks. */
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

/** The sales to be enriched: TPC-DS's `web_sales`, in a database of the catalog. */
class WebSales(spark: SparkSession, database: String) {
  import spark.implicits._

  private val name = s"`$database`.`web_sales`"

  if (!spark.catalog.tableExists(name))
    throw new UsageError(s"There is no table web_sales in a database '$database'. Load TPC-DS there first.")

  def rows: DataFrame = spark.table(name)

  def orders(): Dataset[Order] = rows
    .groupBy(col("ws_order_number").cast("bigint").as("number"))
    .agg(
      // In TPC-DS all lines of an order agree in these, but for those that leave them out.
      max("ws_bill_customer_sk").as("customer"),
      max("ws_sold_date_sk").as("date"),
      max("ws_sold_time_sk").as("time"),
      sort_array(collect_set("ws_item_sk")).as("items")
    )
    .as[Order]

  def items: Int = rows.agg(max("ws_item_sk")).as[Int].head()

  /** The bytes of the table's data files. */
  def bytes: Long = {
    val identifier = spark.sessionState.sqlParser.parseTableIdentifier(name)
    val location = spark.sessionState.catalog.getTableMetadata(identifier).location
    DataFiles.bytes(location.toString, spark.sparkContext.hadoopConfiguration)
  }
}

/** Sums over sales, enriched or not. */
case class SalesSummary(rows: Long, lines: Long, quantity: Long, paid: BigDecimal, checksum: BigDecimal)

object WebSales {

  /** `columns` are those the sales came with. */
  def summary(sales: DataFrame, columns: Seq[String]): SalesSummary = {
    import sales.sparkSession.implicits._
    sales
      .agg(
        count(lit(1)).as("rows"),
        count_distinct(col("ws_order_number"), col("ws_item_sk")).as("lines"),
        orZero(sum("ws_quantity")).cast("bigint").as("quantity"),
        orZero(sum("ws_net_paid")).as("paid"),
        orZero(Checksum.of(columns.map(col): _*)).as("checksum")
      )
      .as[SalesSummary]
      .head()
  }

  /** `199803` for March 1998; null where the sale has no date. */
  def month: Column = {
    val day = date_from_unix_date(col("ws_sold_date_sk") - FactTable.julianDayOf1970)
    year(day) * 100 + org.apache.spark.sql.functions.month(day)
  }

  private def orZero(aggregate: Column): Column = coalesce(aggregate, lit(0))
}
