package io.penstock.workloads.tpcds

import io.trino.tpcds.Scaling

/** How large a table will be, known before it is generated. */
object ExpectedSize {

  /** Bytes a row takes as zstd Parquet, measured at scale 1 in the layout that `FactPlacement` gives. */
  private val bytesPerRow: Map[String, Double] = Map(
    "store_sales" -> 34.5,
    "store_returns" -> 41,
    "catalog_sales" -> 56.5,
    "catalog_returns" -> 55,
    "web_sales" -> 59,
    "web_returns" -> 53,
    "inventory" -> 2.1,
    "customer" -> 38,
    "customer_demographics" -> 2.7
  )
  private val bytesPerOtherRow = 40.0

  /** Lines of an order, and the part of them that is returned: what the generator draws from. */
  private val linesPerOrder = Map("store_sales" -> 12.0, "catalog_sales" -> 9.0, "web_sales" -> 12.0)
  private val returned = 0.1

  def of(table: TpcdsTable, scaling: Scaling): Long =
    (rows(table, scaling) * bytesPerRow.getOrElse(table.name, bytesPerOtherRow)).toLong

  def rows(table: TpcdsTable, scaling: Scaling): Long = {
    val generated = table.generatedRows(scaling)
    val sales = if (table.generator.isChild) table.generator.getParent.getName else table.name
    val lines = generated * linesPerOrder.getOrElse(sales, 1.0)
    (if (table.generator.isChild) lines * returned else lines).toLong
  }
}
