package io.penstock.workloads.enrichment

import org.apache.spark.sql.functions._
import org.apache.spark.sql.{Column, DataFrame, Dataset, SparkSession}

import io.penstock.workloads.tpcds.FactTable
import io.penstock.workloads.{Checksum, DataFiles, UsageError}

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

  /** Of the table's data files. */
  def bytes: Long = {
    val identifier = spark.sessionState.sqlParser.parseTableIdentifier(name)
    val location = spark.sessionState.catalog.getTableMetadata(identifier).location
    DataFiles.bytes(location.toString, spark.sparkContext.hadoopConfiguration)
  }
}

/** What sales add up to, enriched or not; amounts as text, since a sum of amounts may be of nothing. */
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
