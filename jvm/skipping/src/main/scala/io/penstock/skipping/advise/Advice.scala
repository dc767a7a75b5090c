package io.penstock.skipping.advise

import io.penstock.skipping.layout.{ColumnSample, Layout}

/**
 * What is known of a table beside its history.
 *
 * @param bytes
 *   of all its files
 * @param columns
 *   those that the history asks for, by name; a column of which there is no sample cannot be laid out by
 * @param partitionable
 *   those that a table may have as directories
 */
case class TableFacts(
    bytes: Long,
    rows: Long,
    columns: Map[String, ColumnSample],
    partitionable: Set[String]
)

/**
 * @param layout
 *   none where the table should stay as it is
 * @param bytesNow
 *   of the files that the noted scans would read of the table as it is: by its index, or as they did where it has none
 * @param bytesThen
 *   of the files that they would read from a table of that layout, as far as can be told beforehand
 * @param reasons
 *   sentences
 */
case class Advice(layout: Option[Layout], scans: Long, bytesNow: Long, bytesThen: Long, reasons: Seq[String])
