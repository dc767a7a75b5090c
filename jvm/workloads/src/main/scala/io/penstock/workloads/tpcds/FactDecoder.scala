package io.penstock.workloads.tpcds

import java.lang.reflect.Field
import java.time.LocalDate

import scala.jdk.CollectionConverters._

import io.trino.tpcds.`type`.{Decimal => GeneratedDecimal, Pricing}
import io.trino.tpcds.generator.GeneratorColumn
import io.trino.tpcds.row.generator.RowGenerator
import io.trino.tpcds.row.{TableRow, TableRowWithNulls}
import io.trino.tpcds.{Session, Table}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * Decodes rows of the six large fact tables from their fields.
 *
 * Only the text form of a row is public, and it prints every amount with `String.format`: that takes twenty times as
 * long as generating the row. The fields are regular enough to go without: the keys, in the order of the columns and
 * named like their null bits, then a `Pricing` the amounts are taken from. A test holds this against the text form.
 */
class FactDecoder(table: Table, schema: StructType, measures: Seq[Measure]) extends RowDecoder {

  private val prefix = FactDecoder.prefix(table)
  private val decoded = new GenericInternalRow(schema.length)
  private val integers = schema.fields.map(_.dataType == IntegerType)
  private val amounts = schema.fields.map(_.dataType).map {
    case amount: DecimalType => amount
    case _ => null
  }
  private val amountOf = measures.map(_.amount).toArray
  private var fields: Fields = _

  override def decode(row: TableRow): InternalRow = {
    if (fields == null) fields = new Fields(row)
    val nulls = fields.nulls.getLong(row)
    val pricing = fields.pricing.get(row).asInstanceOf[Pricing]
    val keys = fields.keys
    var column = 0
    while (column < schema.length) {
      decoded.values(column) =
        if ((nulls & fields.masks(column)) != 0) null
        else if (column < keys.length) key(keys(column).getLong(row), column)
        else if (column == keys.length) pricing.getQuantity
        else amount(amountOf(column - keys.length - 1)(pricing), amounts(column))
      column += 1
    }
    decoded
  }

  // The generator's own sign for a key that has no value.
  private def key(value: Long, column: Int): Any =
    if (value == -1) null else if (integers(column)) value.toInt else value

  private def amount(value: GeneratedDecimal, as: DecimalType): Decimal =
    if (value.getPrecision == as.scale) Decimal(value.getNumber, as.precision, as.scale)
    else Decimal(BigDecimal(value.getNumber, value.getPrecision), as.precision, as.scale)

  /** The fields of the row class, found at the first row. */
  private class Fields(row: TableRow) {
    private val own = row.getClass.getDeclaredFields.toSeq
    val keys: Array[Field] = own.filter(_.getType == classOf[Long]).map(open).toArray
    val pricing: Field = own.find(_.getType == classOf[Pricing]).map(open).get
    val nulls: Field = open(classOf[TableRowWithNulls].getDeclaredField("nullBitMap"))
    val masks: Array[Long] = {
      val first =
        open(classOf[TableRowWithNulls].getDeclaredField("firstColumn")).get(row).asInstanceOf[GeneratorColumn]
      val names = keys.toSeq.map(field => upperSnake(field.getName)) ++
        ("QUANTITY" +: measures.map(_.nullBit)).map(name => s"${prefix}_PRICING_$name")
      names.map(name => 1L << (column(name).getGlobalColumnNumber - first.getGlobalColumnNumber)).toArray
    }
  }

  private def open(field: Field): Field = {
    field.setAccessible(true)
    field
  }

  private def column(name: String): GeneratorColumn = table.getGeneratorColumns
    .find(_.toString == name)
    .getOrElse(throw new IllegalStateException(s"the generator of ${table.getName} has no column $name"))

  private def upperSnake(camel: String): String = camel.replaceAll("([A-Z])", "_$1").toUpperCase(java.util.Locale.ROOT)
}

/** One amount column: where its value is, and which bit says that it is null. */
case class Measure(nullBit: String, amount: Pricing => GeneratedDecimal)

object FactDecoder {

  def of(table: Table, schema: StructType): Option[FactDecoder] =
    measures(table).map(new FactDecoder(table, schema, _))

  private def prefix(table: Table): String =
    table.getColumns.head.getName.takeWhile(_ != '_').toUpperCase(java.util.Locale.ROOT)

  private def measures(table: Table): Option[Seq[Measure]] = table match {
    // The generator fills the discount of a store sale with the coupon.
    case Table.STORE_SALES => Some(prices ++ Seq(coupon) ++ extended ++ Seq(coupon) ++ paid ++ Seq(profit))
    case Table.CATALOG_SALES => Some(remoteSales("EXT_DISCOUNT_AMOUNT"))
    case Table.WEB_SALES => Some(remoteSales("EXT_DISCOUNT_AMT"))
    case Table.STORE_RETURNS | Table.CATALOG_RETURNS | Table.WEB_RETURNS => Some(returns)
    case _ => None
  }

  private val coupon = Measure("COUPON_AMT", _.getCouponAmount)
  private val profit = Measure("NET_PROFIT", _.getNetProfit)
  private val prices = Seq(
    Measure("WHOLESALE_COST", _.getWholesaleCost),
    Measure("LIST_PRICE", _.getListPrice),
    Measure("SALES_PRICE", _.getSalesPrice)
  )
  private val extended = Seq(
    Measure("EXT_SALES_PRICE", _.getExtSalesPrice),
    Measure("EXT_WHOLESALE_COST", _.getExtWholesaleCost),
    Measure("EXT_LIST_PRICE", _.getExtListPrice),
    Measure("EXT_TAX", _.getExtTax)
  )
  private val paid = Seq(
    Measure("NET_PAID", _.getNetPaid),
    Measure("NET_PAID_INC_TAX", _.getNetPaidIncludingTax)
  )

  private def remoteSales(discountBit: String): Seq[Measure] =
    prices ++ Seq(Measure(discountBit, _.getExtDiscountAmount)) ++ extended ++
      Seq(coupon, Measure("EXT_SHIP_COST", _.getExtShipCost)) ++ paid ++ Seq(
        Measure("NET_PAID_INC_SHIP", _.getNetPaidIncludingShipping),
        Measure("NET_PAID_INC_SHIP_TAX", _.getNetPaidIncludingShippingAndTax),
        profit
      )

  private val returns = Seq(
    Measure("NET_PAID", _.getNetPaid),
    Measure("EXT_TAX", _.getExtTax),
    Measure("NET_PAID_INC_TAX", _.getNetPaidIncludingTax),
    Measure("FEE", _.getFee),
    Measure("EXT_SHIP_COST", _.getExtShipCost),
    Measure("REFUNDED_CASH", _.getRefundedCash),
    Measure("REVERSED_CHARGE", _.getReversedCharge),
    Measure("STORE_CREDIT", _.getStoreCredit),
    Measure("NET_LOSS", _.getNetLoss)
  )
}

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

/**
 * The rows of one chunk of a table.
 *
 * Every random stream of the generator can be moved to any row, so a chunk yields the same rows whatever the other
 * chunks are. The one exception are the tables that keep a history (a row repeats fields of the one before): those are
 * generated whole.
 */
class GeneratedRows(table: Table, chunk: Chunk, scale: Double) extends Iterator[TableRow] {

  // Parallelism stays at 1: the generator's own chunks never cut a table of less than a million orders.
  private val session: Session = TpcdsTable.session(scale).withTable(table)
  private val own = newGenerator(table)
  // Returns are generated with the sales they return, from the same streams.
  private val parent = if (table.isChild) newGenerator(table.getParent) else null
  private val child = if (table.hasChild) newGenerator(table.getChild) else null
  private val generators = Seq(own, parent, child).filter(_ != null)

  private var row = chunk.first
  private var pending: Iterator[TableRow] = Iterator.empty

  generators.foreach(_.skipRowsUntilStartingRowNumber(chunk.first))

  override def hasNext: Boolean = {
    while (!pending.hasNext && row <= chunk.last) advance()
    pending.hasNext
  }

  override def next(): TableRow = {
    if (!hasNext) throw new NoSuchElementException(s"${table.getName} ends at row ${chunk.last}")
    pending.next()
  }

  private def advance(): Unit = {
    val result = own.generateRowAndChildRows(row, session, parent, child)
    pending = result.getRowAndChildRows.iterator.asScala
    if (result.shouldEndRow) {
      generators.foreach(_.consumeRemainingSeedsForRow())
      row += 1
    }
  }

  private def newGenerator(of: Table): RowGenerator = of.getRowGeneratorClass.getDeclaredConstructor().newInstance()
}

/** The rows (for sales and returns: orders) `first` to `last` of a table, counted from 1, both included. */
case class Chunk(first: Long, last: Long)

object Chunks {

  /** Cuts `rows` rows into at most `count` chunks of sizes that differ by one at most. */
  def split(rows: Long, count: Int): Seq[Chunk] = {
    val chunks = math.max(1L, math.min(rows, count.toLong))
    (0L until chunks).map { index =>
      Chunk(first = bound(rows, chunks, index) + 1, last = bound(rows, chunks, index + 1))
    }
  }

  // 128-bit in effect: rows * index does not fit a Long at the largest scales and chunk counts.
  private def bound(rows: Long, chunks: Long, index: Long): Long =
    (BigInt(rows) * index / chunks).toLong
}
