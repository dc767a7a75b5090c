package io.penstock.skipping.index

import java.io.IOException
import java.math.BigInteger

import scala.jdk.CollectionConverters._

import org.apache.parquet.column.{ColumnDescriptor, ColumnReader, Dictionary}
import org.apache.parquet.hadoop.metadata.{BlockMetaData, ColumnChunkMetaData}
import org.apache.parquet.io.api.Binary
import org.apache.parquet.schema.LogicalTypeAnnotation._
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName._
import org.apache.parquet.schema.Type.Repetition
import org.apache.parquet.schema.{MessageType, PrimitiveType}
import org.apache.spark.sql.types._

/**
 * A column as a Parquet file has it. There is one only where Spark, reading the file as the column's type, sees the
 * very values whose order Parquet's statistics speak of.
 */
final private[index] class ParquetField private (val descriptor: ColumnDescriptor) {

  private def physical = descriptor.getPrimitiveType.getPrimitiveTypeName

  /** Of one of the boxed numbers or binaries that Parquet's statistics and dictionaries consist of. */
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

  /** The value that the reader is at. */
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

private[index] object ParquetField {

  /** None where the file has no such column, has it in another form, or has several that Spark may take for it. */
  def of(schema: MessageType, column: IndexedColumn): Option[ParquetField] =
    schema.getFields.asScala.toSeq.filter(_.getName.equalsIgnoreCase(column.name)) match {
      case Seq(field)
          if field.getName == column.name && field.isPrimitive && !field.isRepetition(Repetition.REPEATED) &&
            readsAs(field.asPrimitiveType, column.dataType) =>
        Some(new ParquetField(schema.getColumnDescription(Array(column.name))))
      case _ => None
    }

  /**
   * Whether values of a field, held in their domain, are those that Spark reads as this type. Left out although Spark
   * reads them: unsigned numbers, INT96, times in milliseconds or nanoseconds, decimals of another scale, whole numbers
   * that are narrowed, dates read as times.
   */
  private[index] def readsAs(field: PrimitiveType, dataType: DataType): Boolean =
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
