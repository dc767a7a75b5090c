package io.penstock.workloads.tpcds

import java.time.LocalDate

import io.trino.tpcds.Table
import io.trino.tpcds.row.TableRow
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Turns what the generator yields into Spark's own representation. The row returned is reused by the next call. */
trait RowDecoder {
  def decode(row: TableRow): InternalRow
}

object RowDecoder {
  def of(table: Table, schema: StructType): RowDecoder =
    FactDecoder.of(table, schema).getOrElse(new TextDecoder(schema))
}

/** Decodes the text form that every generated row offers. */
class TextDecoder(schema: StructType) extends RowDecoder {

  private val columns = schema.fields.map(field => TextDecoder.parser(field.dataType))
  private val decoded = new GenericInternalRow(columns.length)

  override def decode(row: TableRow): InternalRow = {
    val values = row.getValues
    var column = 0
    while (column < columns.length) {
      val text = values.get(column)
      decoded.values(column) = if (text == null) null else columns(column)(text)
      column += 1
    }
    decoded
  }
}

object TextDecoder {

  private def parser(dataType: DataType): String => Any = dataType match {
    case IntegerType => text => text.toInt
    case LongType => text => text.toLong
    case StringType => text => UTF8String.fromString(text)
    case DateType => text => LocalDate.parse(text).toEpochDay.toInt
    case decimal: DecimalType => text => Decimal(BigDecimal(text), decimal.precision, decimal.scale)
    case other => throw new IllegalArgumentException(s"TPC-DS has no column of type ${other.sql}")
  }
}
