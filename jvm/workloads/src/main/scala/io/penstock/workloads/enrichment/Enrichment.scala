package io.penstock.workloads.enrichment

import org.apache.spark.sql.functions._
import org.apache.spark.sql.{DataFrame, SaveMode}

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
