package io.penstock.workloads.tpcds

import io.trino.tpcds.Scaling

/** How large a table will be, known before it is generated. */
object ExpectedSize {

  /** Bytes a row takes as zstd Parquet, measured at scale 1 in the layout that `FactPlacement` gives. */
  private val bytesPerRow: Map[String, Double] = Map(
    "store_sales" -> 45,
    "store_returns" -> 60,
    "catalog_sales" -> 75,
    "catalog_returns" -> 75,
    "web_sales" -> 75,
    "web_returns" -> 75,
    "inventory" -> 2
  )
  private val bytesPerDimensionRow = 60.0

  /** Lines of an order, and the part of them that is returned: what the generator draws from. */
  private val linesPerOrder = Map("store_sales" -> 12.0, "catalog_sales" -> 9.0, "web_sales" -> 12.0)
  private val returned = 0.1

  def of(table: TpcdsTable, scaling: Scaling): Long =
    (rows(table, scaling) * bytesPerRow.getOrElse(table.name, bytesPerDimensionRow)).toLong

  def rows(table: TpcdsTable, scaling: Scaling): Long = {
    val generated = table.generatedRows(scaling)
    val sales = if (table.generator.isChild) table.generator.getParent.getName else table.name
    val lines = generated * linesPerOrder.getOrElse(sales, 1.0)
    (if (table.generator.isChild) lines * returned else lines).toLong
  }
}
