package io.penstock.skipping.model

import java.math.{BigDecimal => JavaBigDecimal, BigInteger, RoundingMode}
import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.Cast
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

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
 * How values of one of Spark's types, as Catalyst holds them, compare with those of an indexed column, which has
 * another type where it is widened without loss before it is compared. The values given are not null.
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
   * Whether a cast between these types keeps every value apart from every other, and in the same order: then a
   * comparison of what was cast is one of what stands in the file. Catalyst's up-casts are more than these: from
   * timestamp to bigint they cut the fraction of a second off, and between the two timestamps they go by the clock of
   * the session's zone, which is set back once a year.
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

  /** Compared as mathematical numbers; the column's are told in units of its last digit. */
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
    s"not what Catalyst holds such values as: ${value.getClass.getName}"
  )
}

/**
 * The indexed column that keys are compared with.
 *
 * @param values
 *   the keys' type; another one than the column's where the column is widened before it is compared
 */
case class KeyColumn(name: String, dataType: DataType, values: DataType) {

  /** None where such keys cannot be compared with what the index holds. */
  def encoding: Option[ValueEncoding] = ValueEncoding.of(values, dataType)
}
