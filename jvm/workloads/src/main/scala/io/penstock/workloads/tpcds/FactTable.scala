package io.penstock.workloads.tpcds

import java.time.LocalDate

/** The columns a fact table is laid out by. */
case class FactTable(name: String, dateColumn: String, itemColumn: String, orderColumn: String) {

  /** `ss_sold_year` and the like; at day granularity the date key itself is the partition column. */
  def partitionColumn(granularity: Granularity): String = dateColumn.stripSuffix("date_sk") + granularity.columnSuffix
}

object FactTable {

  /** The six large ones: sales and returns of the three channels. */
  val all: Seq[FactTable] = Seq(
    FactTable("store_sales", "ss_sold_date_sk", "ss_item_sk", "ss_ticket_number"),
    FactTable("store_returns", "sr_returned_date_sk", "sr_item_sk", "sr_ticket_number"),
    FactTable("catalog_sales", "cs_sold_date_sk", "cs_item_sk", "cs_order_number"),
    FactTable("catalog_returns", "cr_returned_date_sk", "cr_item_sk", "cr_order_number"),
    FactTable("web_sales", "ws_sold_date_sk", "ws_item_sk", "ws_order_number"),
    FactTable("web_returns", "wr_returned_date_sk", "wr_item_sk", "wr_order_number")
  )

  /**
   * The seventh is four integers a row and generated in the order of its dates, of which there is one a week: plain,
   * its files are of ranges of dates already.
   */
  val inventory: FactTable = FactTable("inventory", "inv_date_sk", "inv_item_sk", "inv_warehouse_sk")

  def named(name: String): Option[FactTable] = all.find(_.name == name)

  /** Date keys are Julian day numbers. */
  val julianDayOf1970 = 2440588

  def julianDay(date: LocalDate): Int = julianDayOf1970 + date.toEpochDay.toInt

  /** Sales are made in these; returns reach some months into the next. */
  val yearsOfSales = 5
  val firstYear = 1998
  val lastYear: Int = firstYear + yearsOfSales
}
