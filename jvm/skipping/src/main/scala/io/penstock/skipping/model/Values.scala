package io.penstock.skipping.model

import java.math.{BigDecimal => JavaBigDecimal, BigInteger, RoundingMode}
import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.Cast
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** The representation and order of an indexed column's values. Types without a domain are never indexed. */
sealed trait Domain

object Domain {

  /** Signed 64-bit numbers: whole numbers, days, microseconds, unscaled decimals of up to 18 digits. */
  case object Integral extends Domain

  /** Bytes in unsigned lexicographic order: strings in UTF-8 and binary values. */
  case object Bytes extends Domain

  /**
   * The domain of a column's type. None for types that an index would serve wrongly or not at all: floating point
   * (Parquet orders its zeros and NaNs differently from Spark), collated strings, long decimals, booleans, nested
   * types.
   */
  def of(dataType: DataType): Option[Domain] = dataType match {
    case ByteType | ShortType | IntegerType | LongType | DateType | TimestampType | TimestampNTZType => Some(Integral)
    case decimal: DecimalType if decimal.precision <= Decimal.MAX_LONG_DIGITS => Some(Integral)
    // A string type equals this object only with the binary collation and without a length constraint.
    case StringType | BinaryType => Some(Bytes)
    case _ => None
  }
}

/** A column an index covers, by its name in the table's schema. `dataType` has a [[Domain]]. */
case class IndexedColumn(name: String, dataType: DataType) {
  def domain: Domain = Domain.of(dataType).get
}

/** A value of a column in its [[Domain]]. */
sealed trait Value

object Value {
  final case class Integral(number: Long) extends Value
  final case class Bytes(bytes: Array[Byte]) extends Value

  /** The order of values of one domain; values of two domains throw an `IllegalArgumentException`. */
  implicit val ordering: Ordering[Value] = {
    case (Integral(a), Integral(b)) => java.lang.Long.compare(a, b)
    case (Bytes(a), Bytes(b)) => Arrays.compareUnsigned(a, b)
    case (a, b) => throw new IllegalArgumentException(s"$a and $b are of two domains")
  }
}

/**
 * The comparison of values of one of Spark's types, as Catalyst holds them, with those of an indexed column. The column
 * may have another type, where a query widens it without loss. Values are never null; one of another type throws an
 * `IllegalArgumentException`. Stateless and thread-safe.
 */
sealed trait ValueEncoding {

  /** The column's values that equal one of these. */
  def points(values: Iterator[Any]): RangeSet

  def atLeast(value: Any): RangeSet

  def greaterThan(value: Any): RangeSet

  def equalTo(value: Any): RangeSet = points(Iterator.single(value))

  def lessThan(value: Any): RangeSet = atLeast(value).complement

  def atMost(value: Any): RangeSet = greaterThan(value).complement
}

object ValueEncoding {

  /** None where such values cannot be compared with the column's. */
  def of(values: DataType, column: DataType): Option[ValueEncoding] = (values, column) match {
    case (DateType, DateType) | (TimestampType, TimestampType) | (TimestampNTZType, TimestampNTZType) => Some(Numbers)
    case (StringType, StringType) | (BinaryType, BinaryType) => Some(Bytes)
    case _ if isWhole(values) && isWhole(column) => Some(Numbers)
    case _ =>
      for {
        _ <- scale(values)
        digits <- scale(column)
      } yield new Decimals(digits)
  }

  /**
   * Whether a cast between these types keeps distinct values distinct and their order: then a comparison with the cast
   * column is one with the values in the file. Not all of Catalyst's up-casts do: timestamp to bigint cuts off
   * fractions of a second, and the casts between the two timestamp types follow the clock of the session's time zone,
   * which is set back once a year.
   */
  def isLossless(from: DataType, to: DataType): Boolean =
    from == to || (Cast.canUpCast(from, to) && of(to, from).isDefined)

  private def isWhole(dataType: DataType): Boolean = scale(dataType).isDefined && !dataType.isInstanceOf[DecimalType]

  private def scale(dataType: DataType): Option[Int] = dataType match {
    case ByteType | ShortType | IntegerType | LongType => Some(0)
    case decimal: DecimalType => Some(decimal.scale)
    case _ => None
  }

  private def number(value: Any): Long = value match {
    case byte: Byte => byte.toLong
    case short: Short => short.toLong
    case int: Int => int.toLong
    case long: Long => long
    case other => throw unexpected(other)
  }

  private object Numbers extends ValueEncoding {
    override def points(values: Iterator[Any]): RangeSet = RangeSet.Integral.points(values.map(number).toArray)

    override def atLeast(value: Any): RangeSet = RangeSet.Integral.interval(number(value), Long.MaxValue)

    override def greaterThan(value: Any): RangeSet = RangeSet.Integral.interval(Long.MinValue, number(value)).complement
  }

  /** Compares mathematical numbers; the column's are in units of its last digit. */
  private final class Decimals(scale: Int) extends ValueEncoding {

    override def points(values: Iterator[Any]): RangeSet = RangeSet.Integral.points(values.flatMap(exactly).toArray)

    override def atLeast(value: Any): RangeSet = from(rounded(value, RoundingMode.CEILING))

    override def greaterThan(value: Any): RangeSet = from(rounded(value, RoundingMode.FLOOR).add(BigInteger.ONE))

    private def exactly(value: Any): Option[Long] = {
      val floor = rounded(value, RoundingMode.FLOOR)
      Option.when(fits(floor) && floor == rounded(value, RoundingMode.CEILING))(floor.longValueExact)
    }

    private def rounded(value: Any, mode: RoundingMode): BigInteger = {
      val decimal = value match {
        case decimal: Decimal => decimal.toJavaBigDecimal
        case whole => JavaBigDecimal.valueOf(number(whole))
      }
      decimal.movePointRight(scale).setScale(0, mode).toBigIntegerExact
    }

    private def from(low: BigInteger): RangeSet =
      if (fits(low)) RangeSet.Integral.interval(low.longValueExact, Long.MaxValue)
      else if (low.signum < 0) RangeSet.Integral.Nothing.complement
      else RangeSet.Integral.Nothing

    private def fits(number: BigInteger): Boolean = number.bitLength < java.lang.Long.SIZE
  }

  private object Bytes extends ValueEncoding {
    override def points(values: Iterator[Any]): RangeSet = RangeSet.Bytes.points(values.map(bytes).toArray)

    override def atLeast(value: Any): RangeSet = RangeSet.Bytes.atLeast(bytes(value))

    override def greaterThan(value: Any): RangeSet = RangeSet.Bytes.greaterThan(bytes(value))

    private def bytes(value: Any): Array[Byte] = value match {
      case string: UTF8String => string.getBytes
      case binary: Array[Byte] => binary
      case other => throw unexpected(other)
    }
  }

  private def unexpected(value: Any) = new IllegalArgumentException(
    s"Catalyst holds such values in another class than ${value.getClass.getName}"
  )
}

/**
 * An indexed column that keys are compared with.
 *
 * @param values
 *   the type of the keys, which differs from the column's where the query widens the column
 */
case class KeyColumn(name: String, dataType: DataType, values: DataType) {

  /** None where such keys cannot be compared with the column's values. */
  def encoding: Option[ValueEncoding] = ValueEncoding.of(values, dataType)
}
