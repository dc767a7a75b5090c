package io.penstock.skipping.filter

import java.math.{BigDecimal => JavaBigDecimal, BigInteger, RoundingMode}

import org.apache.spark.sql.catalyst.expressions.Cast
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * How values of one of Spark's types, as Catalyst holds them, compare with those of an indexed column, which has
 * another type where it is widened without loss before it is compared. The values given are not null.
 */
sealed trait Encoding {

  /** The column's values that equal one of these. */
  def points(values: Iterator[Any]): Keys

  def atLeast(value: Any): Keys

  def greaterThan(value: Any): Keys

  def equalTo(value: Any): Keys = points(Iterator.single(value))

  def lessThan(value: Any): Keys = atLeast(value).complement

  def atMost(value: Any): Keys = greaterThan(value).complement
}

object Encoding {

  /** None where such values cannot be compared with the column's. */
  def of(values: DataType, column: DataType): Option[Encoding] = (values, column) match {
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

  private object Numbers extends Encoding {
    override def points(values: Iterator[Any]): Keys = Keys.Integral.points(values.map(number).toArray)

    override def atLeast(value: Any): Keys = Keys.Integral.interval(number(value), Long.MaxValue)

    override def greaterThan(value: Any): Keys = Keys.Integral.interval(Long.MinValue, number(value)).complement
  }

  /** Compared as mathematical numbers; the column's are told in units of its last digit. */
  private final class Decimals(scale: Int) extends Encoding {

    override def points(values: Iterator[Any]): Keys = Keys.Integral.points(values.flatMap(exactly).toArray)

    override def atLeast(value: Any): Keys = from(rounded(value, RoundingMode.CEILING))

    override def greaterThan(value: Any): Keys = from(rounded(value, RoundingMode.FLOOR).add(BigInteger.ONE))

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

    private def from(low: BigInteger): Keys =
      if (fits(low)) Keys.Integral.interval(low.longValueExact, Long.MaxValue)
      else if (low.signum < 0) Keys.Integral.Nothing.complement
      else Keys.Integral.Nothing

    private def fits(number: BigInteger): Boolean = number.bitLength < java.lang.Long.SIZE
  }

  private object Bytes extends Encoding {
    override def points(values: Iterator[Any]): Keys = Keys.Bytes.points(values.map(bytes).toArray)

    override def atLeast(value: Any): Keys = Keys.Bytes.atLeast(bytes(value))

    override def greaterThan(value: Any): Keys = Keys.Bytes.greaterThan(bytes(value))

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
