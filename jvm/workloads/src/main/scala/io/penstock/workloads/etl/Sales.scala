package io.penstock.workloads.etl

import java.math.BigDecimal
import java.nio.charset.StandardCharsets.UTF_8
import java.time.LocalDate

import io.penstock.workloads.Mixed

/**
 * The sales that lines are made of, and which lines are spoilt. Everything about row `i` depends on `i` and the fields
 * here alone, so the lines are the same whatever number of tasks writes them.
 *
 * Sales are numbered in the order of their dates, as logs are. Spoilt lines are spread evenly, `badPerMillion` in each
 * million rows, and their faults take turns.
 */
case class Sales(rows: Long, badPerMillion: Int, seed: Long) {

  import Sales._

  def bad: Long = badBefore(rows)

  /** The number of lines with each fault. */
  def bad(fault: Fault): Long = {
    val count = Fault.all.size
    bad / count + (if (Fault.all.indexOf(fault) < bad % count) 1 else 0)
  }

  /** The fault of the row's line, if any. */
  def fault(row: Long): Option[Fault] =
    Option.when(badBefore(row + 1) > badBefore(row))(Fault.all((badBefore(row) % Fault.all.size).toInt))

  /** The sale that the row's line tells of, or would if it were not spoilt. */
  def sale(row: Long): Sale = {
    val salt = Mixed(seed, row)
    def below(bound: Int, field: Int) = Mixed.below(bound, salt, field)
    Sale(
      sale_id = row,
      sold_on = FirstDay.plusDays((row.toDouble / rows * Days).toLong),
      store = 1 + below(1000, 0),
      item = 1 + below(300000, 1),
      customer = 1 + below(10000000, 2),
      quantity = 1 + below(100, 3),
      price = BigDecimal.valueOf(1 + below(9999999, 4), 2),
      remark = Remarks(below(Remarks.size, 5)) + below(1000000, 6)
    )
  }

  def line(row: Long): Array[Byte] = {
    val fields = texts(sale(row))
    fault(row).fold(joined(fields))(spoilt(fields, _, row))
  }

  // Without overflow for any number of rows.
  private def badBefore(row: Long): Long = row / Million * badPerMillion + row % Million * badPerMillion / Million
}

object Sales {
  private val Million = 1000000L
  private val FirstDay = LocalDate.of(1998, 1, 1)
  // A year: twelve months to write to are enough, also where each gets little.
  private val Days = 365

  /** In bytes, with the line's end: measured over a million lines. */
  val AverageLine = 69

  private val Remarks =
    IndexedSeq("", "Lieferung an Tür ", "gift | wrapped ", "said \"urgent\" ", "réservé n° ", "no returns ")

  private def texts(sale: Sale): Seq[String] = Seq(
    sale.sale_id.toString,
    sale.sold_on.toString,
    sale.store.toString,
    sale.item.toString,
    sale.customer.toString,
    sale.quantity.toString,
    sale.price.toPlainString,
    SaleFormat.field(sale.remark)
  )

  private def joined(fields: Seq[String]): Array[Byte] = fields.mkString(SaleFormat.Delimiter.toString).getBytes(UTF_8)

  /** Two ways for each fault that has more than one. */
  private def spoilt(fields: Seq[String], fault: Fault, row: Long): Array[Byte] = {
    val first = row % 2 == 0
    fault match {
      case Fault.Columns => joined(if (first) fields.init else fields :+ "surplus")
      case Fault.Number => joined(if (first) fields.updated(5, fields(5) + "x") else fields.updated(6, "n/a"))
      case Fault.Date => joined(fields.updated(1, if (first) "1999-02-30" else "03/17/1999"))
      case Fault.Quote => joined(fields.updated(7, "\"never closed"))
      // The first byte of a letter of two bytes, and not the second.
      case Fault.Encoding => joined(fields.updated(7, "broken ")) ++ Array(0xc3.toByte, '('.toByte)
    }
  }
}

/** A row as it is wanted; `price` has two digits after the point, and at most seven in all. */
case class Sale(
    sale_id: Long,
    sold_on: LocalDate,
    store: Int,
    item: Int,
    customer: Long,
    quantity: Int,
    price: BigDecimal,
    remark: String
)

/** The faults of lines. */
sealed abstract class Fault(val name: String)

object Fault {
  case object Columns extends Fault("columns")
  case object Number extends Fault("number")
  case object Date extends Fault("date")
  case object Encoding extends Fault("encoding")
  case object Quote extends Fault("quote")

  val all: IndexedSeq[Fault] = IndexedSeq(Columns, Number, Date, Encoding, Quote)
}

/** The format of the lines: fields between bars, in quotes where they hold a bar or a quote, which is then doubled. */
object SaleFormat {
  val Delimiter = '|'
  val Quote = '"'
  val Fields = 8

  /** Quotes a field where it must be. */
  def field(text: String): String =
    if (text.indexOf(Delimiter.toInt) < 0 && text.indexOf(Quote.toInt) < 0) text
    else s"$Quote${text.replace(Quote.toString, s"$Quote$Quote")}$Quote"
}
