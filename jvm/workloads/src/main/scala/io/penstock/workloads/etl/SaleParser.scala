package io.penstock.workloads.etl

import java.math.BigDecimal
import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.charset.{CharacterCodingException, CodingErrorAction}
import java.time.LocalDate
import java.time.format.DateTimeParseException

import scala.collection.mutable.ArrayBuffer

/** Why a line is no sale. */
case class Rejection(fault: Fault, reason: String)

/** Reads one line at a time. Keeps buffers between lines, so an instance is for one thread. */
class SaleParser {

  import SaleFormat._

  private val decoder =
    UTF_8.newDecoder().onMalformedInput(CodingErrorAction.REPORT).onUnmappableCharacter(CodingErrorAction.REPORT)
  private val fields = new ArrayBuffer[String](Fields)

  def parse(line: Array[Byte]): Either[Rejection, Sale] =
    try {
      split(decoded(line))
      if (fields.size != Fields) reject(Fault.Columns, s"${fields.size} fields instead of $Fields")
      Right(
        Sale(
          sale_id = whole(0)(_.toLongOption),
          sold_on = date(1),
          store = whole(2)(_.toIntOption),
          item = whole(3)(_.toIntOption),
          customer = whole(4)(_.toLongOption),
          quantity = whole(5)(_.toIntOption),
          price = money(6),
          remark = fields(7)
        )
      )
    } catch { case Rejected(rejection) => Left(rejection) }

  private def decoded(line: Array[Byte]): String =
    try decoder.decode(ByteBuffer.wrap(line)).toString
    catch { case _: CharacterCodingException => reject(Fault.Encoding, "not UTF-8") }

  private def split(line: String): Unit = {
    fields.clear()
    var start = 0
    while (start >= 0) start = if (line.startsWith(Quote.toString, start)) quoted(line, start) else plain(line, start)
  }

  /** Adds the field that begins at `start`; returns where the next one begins, or -1 after the last. */
  private def plain(line: String, start: Int): Int = {
    val end = line.indexOf(Delimiter.toInt, start)
    fields += line.substring(start, if (end < 0) line.length else end)
    if (end < 0) -1 else end + 1
  }

  private def quoted(line: String, start: Int): Int = {
    val field = new StringBuilder
    var at = start + 1
    var open = true
    while (open) {
      val quote = line.indexOf(Quote.toInt, at)
      if (quote < 0) reject(Fault.Quote, s"the quote at character ${start + 1} is never closed")
      field.append(line.substring(at, quote))
      if (line.startsWith(Quote.toString, quote + 1)) field.append(Quote) else open = false
      at = quote + (if (open) 2 else 1)
    }
    fields += field.result()
    if (at == line.length) -1
    else if (line.charAt(at) == Delimiter) at + 1
    else reject(Fault.Quote, s"text after the closing quote at character $at")
  }

  private def whole[T](index: Int)(read: String => Option[T]): T =
    read(fields(index)).getOrElse(reject(Fault.Number, s"field ${index + 1} is no whole number: ${fields(index)}"))

  private def money(index: Int): BigDecimal = {
    val number =
      try new BigDecimal(fields(index))
      catch {
        case _: NumberFormatException => reject(Fault.Number, s"field ${index + 1} is no number: ${fields(index)}")
      }
    if (number.scale != 2 || number.precision > 7)
      reject(Fault.Number, s"field ${index + 1} is no amount below 100000 with two decimals: ${fields(index)}")
    number
  }

  private def date(index: Int): LocalDate =
    try LocalDate.parse(fields(index))
    catch {
      case _: DateTimeParseException => reject(Fault.Date, s"field ${index + 1} is no date: ${fields(index)}")
    }

  private def reject(fault: Fault, reason: String): Nothing = throw Rejected(Rejection(fault, reason))
}

/** Leaves the parser from any depth; without a stack trace, which would cost more than the parsing. */
private case class Rejected(rejection: Rejection) extends RuntimeException(rejection.reason, null, false, false)
