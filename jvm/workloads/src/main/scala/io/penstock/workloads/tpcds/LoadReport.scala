package io.penstock.workloads.tpcds

import java.util.Locale

import scala.collection.immutable.ListMap

/** What was chosen for each table and what it came to. */
object LoadReport {

  /** For the programs that use the data. */
  def manifest(
      scale: Double,
      objectSize: Long,
      design: Design,
      versions: Map[String, String],
      tables: Seq[LoadedTable]
  ): Map[String, Any] = ListMap(
    "scale" -> scale,
    "object_size" -> objectSize,
    "layout" -> design.name,
    "versions" -> versions,
    "tables" -> tables.map(describe)
  )

  private def describe(loaded: LoadedTable): Map[String, Any] = ListMap(
    "table" -> loaded.plan.table.name,
    "rows" -> loaded.rows,
    "bytes" -> loaded.bytes,
    "files" -> loaded.files,
    "partitions" -> loaded.partitions,
    "partition_column" -> loaded.partitionColumn,
    "layout" -> loaded.layout
  )

  /** For people. */
  def table(loaded: Seq[LoadedTable]): String = {
    val heading = Seq("table", "rows", "MB", "objects", "layout")
    val rows = loaded.map { one =>
      Seq(
        one.plan.table.name,
        "%,d".formatLocal(Locale.ROOT, one.rows),
        "%.1f".formatLocal(Locale.ROOT, one.bytes / 1e6),
        one.files.toString,
        one.layout
      )
    }
    val widths = (heading +: rows).transpose.map(_.map(_.length).max)
    (heading +: rows).map(line(_, widths)).mkString("\n")
  }

  /** Names to the left, numbers to the right. */
  private def line(cells: Seq[String], widths: Seq[Int]): String =
    cells
      .zip(widths)
      .zipWithIndex
      .map {
        case ((cell, width), column) if column >= 1 && column <= 3 => cell.reverse.padTo(width, ' ').reverse
        case ((cell, width), _) => cell.padTo(width, ' ')
      }
      .mkString("  ")
      .stripTrailing
}
