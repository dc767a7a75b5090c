package io.penstock.skipping.index

import org.apache.spark.sql.types._

/** How the values of an indexed column are held and compared. Types of no domain are never indexed. */
sealed trait Domain

object Domain {

  /** As signed 64-bit numbers: whole numbers, days, microseconds, unscaled decimals of up to 18 digits. */
  case object Integral extends Domain

  /** As bytes in unsigned lexicographic order: strings in UTF-8 and binary values. */
  case object Bytes extends Domain

  /**
   * The domain of a column's type. None for what cannot be indexed soundly or to any use: floating point (its zeros and
   * NaNs compare otherwise in Parquet than in Spark), collated strings, long decimals, booleans, nested types.
   */
  def of(dataType: DataType): Option[Domain] = dataType match {
    case ByteType | ShortType | IntegerType | LongType | DateType | TimestampType | TimestampNTZType => Some(Integral)
    case decimal: DecimalType if decimal.precision <= Decimal.MAX_LONG_DIGITS => Some(Integral)
    // Equal to this object only with the binary collation and no length constraint.
    case StringType | BinaryType => Some(Bytes)
    case _ => None
  }
}
