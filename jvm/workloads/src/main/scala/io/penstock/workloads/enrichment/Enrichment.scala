package io.penstock.workloads.enrichment

import org.apache.spark.sql.functions._
import org.apache.spark.sql.{DataFrame, SaveMode}

import io.penstock.workloads.Differences

/** Sales joined with what the log of clicks tells of them. */
object Enrichment {

  val Month = "sold_month"

  /** The columns that sales get. */
  val Added: Seq[String] = Seq("clicks", "last_referrer", "last_agent", "first_viewed_at", Month)

  /**
   * Every sale once, with the views of its item, in the session that ended with its order, up to the purchase. A sale
   * without any has zero clicks and nulls.
   */
  def enriched(sales: DataFrame, clicks: DataFrame): DataFrame = {
    val purchases = clicks
      .where(col("event") === Click.Purchase)
      .select(col("session"), col("order_number").as("ordered"), col("at").as("purchased_at"))
    val interests = clicks
      .where(col("event") === Click.View)
      .join(purchases, "session")
      .where(col("at") <= col("purchased_at"))
      .groupBy(col("ordered"), col("item"))
      .agg(
        count(lit(1)).as("clicks"),
        max_by(col("referrer"), col("at")).as("last_referrer"),
        max_by(col("agent"), col("at")).as("last_agent"),
        min("at").as("first_viewed_at")
      )
    sales
      .join(interests, col("ws_order_number") === col("ordered") && col("ws_item_sk") === col("item"), "left")
      .drop("ordered", "item")
      .withColumn("clicks", coalesce(col("clicks"), lit(0L)))
      .withColumn(Month, WebSales.month)
  }

  /** By month; a month's rows in as many objects as their size asks for, whatever tasks they come from. */
  def write(enriched: DataFrame, output: String): Unit = enriched
    .hint("rebalance", col(Month))
    .write
    .mode(SaveMode.Overwrite)
    .partitionBy(Month)
    .parquet(output)
}

/** Checks of enriched sales, pure functions of numbers. None where they are correct, else the differences. */
object EnrichmentVerdict {

  /** Every sale is there, once, with all it had before. */
  def sales(source: SalesSummary, found: SalesSummary): Option[String] = Differences.of(
    ("rows", source.rows, found.rows),
    ("different order lines", source.rows, found.lines),
    ("sum of quantities", source.quantity, found.quantity),
    ("sum of net paid", source.paid, found.paid),
    ("checksum of all columns", source.checksum, found.checksum)
  )

  /** Every click that belongs to an order line was counted there, and no other. */
  def clicks(expected: ExpectedClicks, found: ExpectedClicks): Option[String] = Differences.of(
    ("matched clicks", expected.matched, found.matched),
    ("order lines with clicks", expected.lines, found.lines),
    ("checksum of clicks and referrers", expected.checksum, found.checksum)
  )

  /** Every line of the log was read. */
  def log(expected: ExpectedClicks, read: Long, unreadable: Long): Option[String] =
    Differences.of(("lines", expected.clicks, read), ("unreadable lines", 0L, unreadable))

  /** No sale is in another month's partition. */
  def placement(misplaced: Long): Option[String] = Differences.of(("sales in a partition not their own", 0L, misplaced))
}
