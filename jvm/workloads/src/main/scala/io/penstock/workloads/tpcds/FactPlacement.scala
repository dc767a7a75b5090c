package io.penstock.workloads.tpcds

import java.time.LocalDate

import org.apache.spark.sql.functions._
import org.apache.spark.sql.{Column, DataFrame}

/** Sends each row of a fact table to the object its date and item belong to. */
class FactPlacement(fact: FactTable, items: Long) {

  import FactPlacement._

  private val date = col(fact.dateColumn)
  private val item = col(fact.itemColumn)

  /** The rows, one task's worth per object of `layout`, in the order they are to be written. */
  def place(rows: DataFrame, layout: Layout): DataFrame = layout match {
    case Partitioned(_, granularity, filesPerPartition, filesWithoutDate) =>
      val partitions = partitionCount(granularity)
      val dated = partitionIndex(granularity) * filesPerPartition + itemRange(filesPerPartition)
      val undated = lit(partitions * filesPerPartition) + itemRange(filesWithoutDate)
      val name = fact.partitionColumn(granularity)
      arrange(
        // At day granularity the date key is both: Hive keeps it in the path alone.
        if (granularity == Granularity.Day) rows else rows.withColumn(name, partitionValue(granularity)),
        objects = partitions * filesPerPartition + filesWithoutDate,
        objectIndex = when(date.isNull, undated).otherwise(dated),
        first = Some(name)
      )
    case Ranged(_, files) => arrange(rows, files, itemRange(files), first = None)
    case Gridded(_, dateRanges, itemRanges, filesWithoutDate) =>
      val dated = dateRange(dateRanges) * itemRanges + itemRange(itemRanges)
      val undated = lit(dateRanges * itemRanges) + itemRange(filesWithoutDate)
      arrange(
        rows,
        objects = dateRanges * itemRanges + filesWithoutDate,
        objectIndex = when(date.isNull, undated).otherwise(dated),
        first = None
      )
    case Plain(_, _) => rows
  }

  // Not Spark's repartitionByRange: that samples the rows, and so generates all of them twice.
  private def arrange(rows: DataFrame, objects: Int, objectIndex: Column, first: Option[String]): DataFrame =
    rows
      .repartitionById(objects, objectIndex.cast("int"))
      // By date, so that each page of an object covers few days; then by order: its lines agree in half their columns,
      // which makes runs that Parquet stores almost for nothing.
      .sortWithinPartitions((first.toSeq ++ Seq(fact.dateColumn, fact.orderColumn)).distinct.map(col): _*)

  private def itemRange(files: Int): Column =
    if (files == 1) lit(0) else floor((item.cast("long") - 1) * files / items).cast("int")

  // Of the years of sales: the few returns after them are in the last range.
  private def dateRange(ranges: Int): Column =
    least(floor((date - FirstDay).cast("long") * ranges / DaysOfSales), lit(ranges - 1)).cast("int")

  private def day: Column = date_from_unix_date(date - FactTable.julianDayOf1970)

  private def partitionIndex(granularity: Granularity): Column = granularity match {
    case Granularity.Day => date - FirstDay
    case Granularity.Month => (year(day) - FactTable.firstYear) * 12 + month(day) - 1
    case Granularity.Quarter => (year(day) - FactTable.firstYear) * 4 + quarter(day) - 1
    case Granularity.Year => year(day) - FactTable.firstYear
  }

  /** `199803` for a month, `19981` for a quarter, `1998` for a year: integers that sort as the dates do. */
  private def partitionValue(granularity: Granularity): Column = granularity match {
    case Granularity.Day => date
    case Granularity.Month => year(day) * 100 + month(day)
    case Granularity.Quarter => year(day) * 10 + quarter(day)
    case Granularity.Year => year(day)
  }
}

object FactPlacement {

  private val FirstDay = FactTable.julianDay(LocalDate.of(FactTable.firstYear, 1, 1))
  private val DaysOfSales = FactTable.julianDay(LocalDate.of(FactTable.lastYear, 1, 1)) - FirstDay

  /** Every partition that a date of the fact tables can fall into. */
  private def partitionCount(granularity: Granularity): Int =
    math.ceil((FactTable.lastYear - FactTable.firstYear + 1) * granularity.partitionsPerYear).toInt
}

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
