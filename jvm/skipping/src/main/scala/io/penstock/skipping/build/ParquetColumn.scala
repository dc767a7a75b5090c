package io.penstock.skipping.build

import java.io.IOException
import java.math.BigInteger
import java.util.Arrays

import scala.jdk.CollectionConverters._

import org.apache.parquet.column.{ColumnDescriptor, ColumnReader, Dictionary}
import org.apache.parquet.hadoop.metadata.{BlockMetaData, ColumnChunkMetaData}
import org.apache.parquet.io.api.Binary
import org.apache.parquet.schema.LogicalTypeAnnotation._
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName._
import org.apache.parquet.schema.Type.Repetition
import org.apache.parquet.schema.{MessageType, PrimitiveType}
import org.apache.spark.sql.catalyst.util.RebaseDateTime
import org.apache.spark.sql.types._

import io.penstock.skipping.index.ColumnEntry
import io.penstock.skipping.model.{IndexedColumn, Value}

/**
 * A column in one Parquet file, where Spark, which reads the file as the column's type, sees exactly the values that
 * Parquet's statistics order.
 */
final private[skipping] class ParquetColumn private (val descriptor: ColumnDescriptor) {

  private def physical = descriptor.getPrimitiveType.getPrimitiveTypeName

  /** The value of a boxed number or binary of Parquet's statistics and dictionaries; None for any other. */
  def value(raw: Any): Option[Value] = raw match {
    case number: Int => Some(Value.Integral(number.toLong))
    case number: Long => Some(Value.Integral(number))
    case binary: Binary if isDecimal =>
      val unscaled = new BigInteger(binary.getBytes)
      Option.when(unscaled.bitLength < 64)(Value.Integral(unscaled.longValue))
    case binary: Binary => Some(Value.Bytes(binary.getBytes))
    case _ => None
  }

  def raw(dictionary: Dictionary, id: Int): Any = physical match {
    case INT32 => dictionary.decodeToInt(id)
    case INT64 => dictionary.decodeToLong(id)
    case _ => dictionary.decodeToBinary(id).copy()
  }

  /** The reader's current value. */
  def raw(column: ColumnReader): Any = physical match {
    case INT32 => column.getInteger
    case INT64 => column.getLong
    case _ => column.getBinary.copy()
  }

  def chunk(group: BlockMetaData): ColumnChunkMetaData = group.getColumns.asScala
    .find(_.getPath.toArray.sameElements(descriptor.getPath))
    .getOrElse(throw new IOException(s"a row group lacks the column ${descriptor.getPath.head}"))

  private def isDecimal =
    descriptor.getPrimitiveType.getLogicalTypeAnnotation.isInstanceOf[DecimalLogicalTypeAnnotation]
}

private[skipping] object ParquetColumn {

  /**
   * The column in a file's schema; None where the file lacks it, has it with another type, or has several that Spark
   * may take for it.
   */
  def of(schema: MessageType, column: IndexedColumn): Option[ParquetColumn] =
    schema.getFields.asScala.toSeq.filter(_.getName.equalsIgnoreCase(column.name)) match {
      case Seq(field)
          if field.getName == column.name && field.isPrimitive && !field.isRepetition(Repetition.REPEATED) &&
            readsAs(field.asPrimitiveType, column.dataType) =>
        Some(new ParquetColumn(schema.getColumnDescription(Array(column.name))))
      case _ => None
    }

  /**
   * Whether the values of a field in their domain are those that Spark reads as this type. False although Spark reads
   * them: unsigned numbers, INT96, times in milliseconds or nanoseconds, decimals of another scale, whole numbers that
   * are narrowed, dates read as times.
   */
  private[skipping] def readsAs(field: PrimitiveType, dataType: DataType): Boolean =
    (dataType, field.getPrimitiveTypeName, Option(field.getLogicalTypeAnnotation)) match {
      case (ByteType | ShortType | IntegerType | LongType, INT32 | INT64, annotation) =>
        bits(field, annotation).exists(_ <= width(dataType))
      case (DateType, INT32, Some(_: DateLogicalTypeAnnotation)) => true
      case (TimestampType, INT64, Some(time: TimestampLogicalTypeAnnotation)) =>
        time == timestampType(true, TimeUnit.MICROS)
      case (TimestampNTZType, INT64, Some(time: TimestampLogicalTypeAnnotation)) =>
        time == timestampType(false, TimeUnit.MICROS)
      case (decimal: DecimalType, INT32 | INT64 | FIXED_LEN_BYTE_ARRAY, Some(own: DecimalLogicalTypeAnnotation)) =>
        own.getScale == decimal.scale && own.getPrecision <= decimal.precision
      case (StringType, BINARY, Some(_: StringLogicalTypeAnnotation)) => true
      case (BinaryType, BINARY, None) => true
      case _ => false
    }

  private def bits(field: PrimitiveType, annotation: Option[LogicalType]): Option[Int] = annotation match {
    case None => Some(if (field.getPrimitiveTypeName == INT32) 32 else 64)
    case Some(whole: IntLogicalTypeAnnotation) if whole.isSigned => Some(whole.getBitWidth)
    case _ => None
  }

  private type LogicalType = org.apache.parquet.schema.LogicalTypeAnnotation

  private def width(dataType: DataType): Int = dataType.defaultSize * 8
}

/** Bounds of a file's column from those of its row groups. */
private[skipping] object Bounds {

  /** Longer bounds would make the index large for little: few values differ only after this length. */
  private val LongestBytes = 64

  /**
   * The statistics of one row group in the footer: `bounds` are the least and the greatest value, where they are known.
   */
  case class Chunk(rows: Long, nulls: Option[Long], bounds: Option[(Value, Value)]) {
    def hasNoValues: Boolean = nulls.contains(rows)

    /** Whether there are bounds; those of a writer that contradicts itself do not count. */
    def isBounded: Boolean = bounds.exists { case (low, high) => Value.ordering.lteq(low, high) }
  }

  def of(chunks: Seq[Chunk]): ColumnEntry = {
    val nulls = Option.when(chunks.forall(_.nulls.isDefined))(chunks.flatMap(_.nulls).sum)
    val withValues = chunks.filterNot(_.hasNoValues)
    if (withValues.isEmpty || !withValues.forall(_.isBounded)) ColumnEntry(nulls)
    else {
      val (lows, highs) = withValues.flatMap(_.bounds).unzip
      ColumnEntry(nulls, minimum = Some(below(lows.min)), maximum = above(highs.max))
    }
  }

  def isShort(value: Value): Boolean = value match {
    case Value.Bytes(bytes) => bytes.length <= LongestBytes
    case _: Value.Integral => true
  }

  /** A lower bound of limited length. */
  private[skipping] def below(value: Value): Value = value match {
    case Value.Bytes(bytes) if bytes.length > LongestBytes => Value.Bytes(Arrays.copyOf(bytes, LongestBytes))
    case short => short
  }

  /** An upper bound of limited length, if there is one. */
  private[skipping] def above(value: Value): Option[Value] = value match {
    case Value.Bytes(bytes) if bytes.length > LongestBytes =>
      // Raise the last byte that can be raised, and drop the bytes after it.
      val last = bytes.lastIndexWhere(_ != -1, LongestBytes - 1)
      Option.when(last >= 0) {
        val raised = Arrays.copyOf(bytes, last + 1)
        raised(last) = (raised(last) + 1).toByte
        Value.Bytes(raised)
      }
    case short => Some(short)
  }
}

/**
 * Guards against the two calendars of Parquet files. Old files hold dates and times of the Julian calendar, which Spark
 * rebases as it reads; for files that do not name their calendar, the reading session's settings decide. Values after
 * the calendars' last difference are the same in both.
 */
private[skipping] object RebaseGuard {

  /**
   * Keys of Spark's metadata in files: its version, and the mark for old-calendar values of a new version.
   */
  private val Version = "org.apache.spark.version"
  private val Legacy = "org.apache.spark.legacyDateTime"

  /** Whether every session reads the file's dates and times without rebasing. */
  def isModern(metadata: java.util.Map[String, String]): Boolean =
    Option(metadata.get(Version)).exists(_ >= "3.0.0") && !metadata.containsKey(Legacy)

  /** The entry without statistics that depend on the calendar. */
  def guard(entry: ColumnEntry, dataType: DataType, isModern: Boolean): ColumnEntry = {
    val same = sameSince(dataType).forall { first =>
      isModern || (entry.minimum match {
        case Some(Value.Integral(minimum)) => minimum >= first
        case _ => false
      })
    }
    if (same) entry else ColumnEntry(nulls = entry.nulls)
  }

  private def sameSince(dataType: DataType): Option[Long] = dataType match {
    case DateType => Some(RebaseDateTime.lastSwitchJulianDay.toLong)
    case TimestampType => Some(RebaseDateTime.lastSwitchJulianTs)
    // Spark does not rebase these; the guard costs nothing, should it ever.
    case TimestampNTZType => Some(RebaseDateTime.lastSwitchJulianTs)
    case _ => None
  }
}
