package io.penstock.workloads.etl

import java.math.BigDecimal
import java.time.LocalDate

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

/** What can be wrong with a line. */
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
