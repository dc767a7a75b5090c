package io.penstock.skipping.fuzz

import java.math.{BigDecimal => Decimal}
import java.nio.charset.StandardCharsets.UTF_8
import java.time.{Instant, LocalDate, LocalDateTime, ZoneOffset}

import org.apache.spark.sql.types._

/**
 * A column's type as the fuzzer knows it.
 *
 * @param family
 *   kinds of one family are compared and joined with each other
 * @param at
 *   the domain: an ascending value for each number from 0 to [[Kind.Domain]], the same one, as far as the type can say
 *   it, for all kinds of a family
 * @param edges
 *   what the type can hold at most, and what is known to be treated specially somewhere
 */
final case class Kind(sql: String, dataType: DataType, family: String, at: Int => Any, edges: Seq[Any]) {

  /** Whether values that are equal also look the same: which of them stands for a group is by chance otherwise. */
  def exact: Boolean = dataType != FloatType && dataType != DoubleType && family != Kind.FoldedText

  /** The value as SQL writes it, of this very type. */
  def literal(value: Any): String = value match {
    case null => s"CAST(NULL AS $sql)"
    case bytes: Array[Byte] => bytes.map(byte => f"$byte%02X").mkString("X'", "", "'")
    case text: String if family == Kind.Text => Kind.quoted(text)
    case text: String => s"${Kind.quoted(text)} COLLATE UTF8_LCASE"
    case instant: Instant => s"TIMESTAMP '$instant'"
    case time: LocalDateTime => s"TIMESTAMP_NTZ '$time'"
    case day: LocalDate => s"DATE '$day'"
    case other => s"CAST('$other' AS $sql)"
  }
}

object Kind {

  /** Values of a domain are numbered below this. */
  val Domain = 80

  val Number = "number"
  val Day = "day"
  val Text = "text"
  val FoldedText = "folded text"
  val Bytes = "bytes"

  private val Middle = Domain / 2
  private val FirstDay = LocalDate.of(2000, 1, 1)
  private val Early = LocalDate.of(1, 1, 1)
  private val Late = LocalDate.of(9999, 12, 31)
  // The last day of the Julian calendar, and the first one of the Gregorian.
  private val Switch = Seq(LocalDate.of(1582, 10, 4), LocalDate.of(1582, 10, 15), LocalDate.of(1899, 12, 31))

  private def number(sql: String, dataType: DataType, of: Int => Any, edges: Any*): Kind =
    Kind(sql, dataType, Number, i => of(i - Middle), edges)

  private def decimal(precision: Int, scale: Int): Kind = {
    def of(unscaled: BigInt): Decimal = new Decimal(unscaled.bigInteger, scale)
    val most = BigInt(10).pow(precision) - 1
    number(
      s"DECIMAL($precision,$scale)",
      DecimalType(precision, scale),
      i => of(BigInt(i) * BigInt(10).pow(scale)),
      of(most),
      of(-most),
      of(1),
      of(-1)
    )
  }

  private def quoted(text: String): String =
    text.map(c => if (c == '\'' || c == '\\') s"\\$c" else c.toString).mkString("'", "", "'")

  // Longer than what Parquet keeps of a bound (64 bytes) in every other value.
  private def text(i: Int): String = (if (i % 2 == 0) "k" else "k" * 70) + f"$i%03d"

  private val textEdges = Seq(
    "",
    " ",
    "k  ",
    "'\\%_",
    "K010",
    "kkk\u00e9",
    // In UTF-8 the first is smaller than the second, in UTF-16 greater.
    "\uffff",
    new String(Character.toChars(0x10ffff)),
    "\uffff" * 40,
    new String(Character.toChars(0x10ffff)) * 40,
    "\u0000"
  )

  /** The beginning of a day that a date names, too; every third time half a second later. */
  private def moment(i: Int): LocalDateTime =
    FirstDay.plusDays(i.toLong).atStartOfDay.plusNanos(if (i % 3 == 1) 500000000L else 0)

  private def instants(day: LocalDate): Seq[LocalDateTime] =
    Seq(day.atStartOfDay, day.atTime(23, 59, 59, 999999000))

  private val timeEdges = (Seq(Early, Late) ++ Switch).flatMap(instants)

  val All: Seq[Kind] = Seq(
    number("TINYINT", ByteType, _.toByte, Byte.MinValue, Byte.MaxValue),
    number("SMALLINT", ShortType, _.toShort, Short.MinValue, Short.MaxValue),
    number("INT", IntegerType, i => i, Int.MinValue, Int.MaxValue),
    number("BIGINT", LongType, _.toLong, Long.MinValue, Long.MaxValue),
    decimal(5, 1),
    decimal(9, 2),
    decimal(18, 0),
    decimal(18, 6),
    decimal(24, 2),
    number("FLOAT", FloatType, _.toFloat, Float.NaN, -0.0f, Float.NegativeInfinity, Float.PositiveInfinity),
    number("DOUBLE", DoubleType, _.toDouble, Double.NaN, -0.0, Double.NegativeInfinity, Double.PositiveInfinity),
    Kind("DATE", DateType, Day, i => FirstDay.plusDays(i.toLong), Seq(Early, Late) ++ Switch),
    Kind(
      "TIMESTAMP",
      TimestampType,
      Day,
      i => moment(i).toInstant(ZoneOffset.UTC),
      timeEdges.map(_.toInstant(ZoneOffset.UTC))
    ),
    Kind("TIMESTAMP_NTZ", TimestampNTZType, Day, moment, timeEdges),
    Kind("STRING", StringType, Text, text, textEdges),
    Kind("STRING COLLATE UTF8_LCASE", StringType("UTF8_LCASE"), FoldedText, text, textEdges),
    Kind(
      "BINARY",
      BinaryType,
      Bytes,
      text(_).getBytes(UTF_8),
      Seq(Array[Byte](), Array[Byte](0), Array[Byte](-1), Array.fill[Byte](80)(-1), Array[Byte](Byte.MinValue, 127))
    )
  )

  def ofFamily(family: String): Seq[Kind] = All.filter(_.family == family)

  /** The kinds that partition columns have here. */
  val OfPartitions: Seq[Kind] = Seq("INT", "DATE", "STRING").map(sql => All.find(_.sql == sql).get)
}
