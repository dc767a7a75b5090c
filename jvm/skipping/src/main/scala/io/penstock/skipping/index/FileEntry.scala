package io.penstock.skipping.index

import java.util.Arrays

import org.apache.spark.sql.types.DataType

/** A column an index covers, by its name in the table's schema. `dataType` has a [[Domain]]. */
case class IndexedColumn(name: String, dataType: DataType) {
  def domain: Domain = Domain.of(dataType).get
}

/** A value of a column in its [[Domain]]. */
sealed trait Value

object Value {
  final case class Integral(number: Long) extends Value
  final case class Bytes(bytes: Array[Byte]) extends Value

  /** Of values of one domain. */
  implicit val ordering: Ordering[Value] = {
    case (Integral(a), Integral(b)) => java.lang.Long.compare(a, b)
    case (Bytes(a), Bytes(b)) => Arrays.compareUnsigned(a, b)
    case (a, b) => throw new IllegalArgumentException(s"$a and $b are of two domains")
  }
}

/**
 * What is known of one column in one file. Every part may be missing, and what is missing is unknown: the file is kept.
 *
 * @param nulls
 *   rows in which the column is null
 * @param minimum
 *   no greater than any value in the file; where Parquet cut a long string, it may be smaller than all of them
 * @param maximum
 *   no smaller than any value in the file
 * @param values
 *   every distinct value that is not null, in ascending order (of signed numbers; of unsigned bytes)
 * @param bloom
 *   of every value that is not null
 */
case class ColumnEntry(
    nulls: Option[Long] = None,
    minimum: Option[Value] = None,
    maximum: Option[Value] = None,
    values: Option[Seq[Value]] = None,
    bloom: Option[Bloom] = None
)

/**
 * What the index knows of one file. A file of the same directory and name but another length or modification time is
 * another file, of which nothing is known.
 *
 * @param directory
 *   relative to the table's root, without slashes at its ends; empty for the root itself
 * @param modificationMs
 *   as the file system lists it
 * @param columns
 *   by the column's name; a column that is missing here is unknown in this file
 */
case class FileEntry(
    directory: String,
    name: String,
    length: Long,
    modificationMs: Long,
    rows: Long,
    columns: Map[String, ColumnEntry]
)
