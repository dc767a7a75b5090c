package io.penstock.workloads.enrichment

import java.time.Instant

import io.penstock.workloads.Mixed
import io.penstock.workloads.tpcds.FactTable

/**
 * The clicks around orders. Everything depends on the order and the fields here alone, so the log is the same whatever
 * number of tasks generates it.
 *
 * An order is the end of one session: its lines' items were viewed before, some not at all, `clicksPerLine` times in
 * the mean. What must not count is there too: views of other items, searches, views after the purchase, and sessions of
 * the same user that bought nothing.
 */
case class ClickStream(items: Int, clicksPerLine: Int, seed: Long) {

  import ClickStream._

  def clicks(order: Order): Seq[Click] = {
    val draw = drawing(order)
    val buying = new Session(order, number = 0, draw)
    val purchase = buying.click(0, Click.Purchase, None, Some(order.number))
    val before = order.items.zipWithIndex.flatMap { case (item, line) =>
      (0L until views(draw, line)).map(view => buying.view(secondsBefore(line, view), item, referrer(draw, line, view)))
    }
    val after = order.items.zipWithIndex.collect {
      case (item, line) if draw(2, line, Late) == 0 => buying.view(60L + line, item, Referrers.head)
    }
    val searches = Seq(buying.click(-secondsOfSearch, Click.Search, None, None))
    purchase +: (before ++ after ++ searches ++ others(order, draw, buying) ++ browsing(order, draw))
  }

  /** The clicks that belong to the order's lines; none for a line whose item nobody viewed. */
  def interests(order: Order): Seq[Interest] = {
    val draw = drawing(order)
    for ((item, line) <- order.items.zipWithIndex; count = views(draw, line); if count > 0)
      yield Interest(order.number, item, count, referrer(draw, line, 0))
  }

  private def views(draw: Draw, line: Int): Long = draw(2 * clicksPerLine + 1, line, Views).toLong

  // View 0 is the last before the purchase.
  private def secondsBefore(line: Int, view: Long): Long = -(10L + view * 30 + line % 30)

  private def referrer(draw: Draw, line: Int, view: Long): String =
    Referrers(draw(Referrers.size, line, Referrer + view.toInt))

  private def others(order: Order, draw: Draw, session: Session): Seq[Click] =
    (0 until draw(clicksPerLine + 1, 0, Others)).flatMap { other =>
      val item = 1 + draw(items, other, OtherItem)
      Option.when(!order.items.contains(item))(session.view(-15L - 20 * other, item, Referrers.last))
    }

  private def browsing(order: Order, draw: Draw): Seq[Click] =
    (1 to draw(Sessions, 0, Browsing)).flatMap { number =>
      val session = new Session(order, number, draw)
      val viewed = order.items.headOption.toSeq :+ (1 + draw(items, number, OtherItem))
      viewed.zipWithIndex.map { case (item, view) => session.view(-30L * view, item, Referrers(1)) }
    }

  private def drawing(order: Order): Draw = {
    val salt = Mixed(seed, order.number)
    (bound, number, purpose) => Mixed.below(bound, salt, number.toLong * Purposes + purpose)
  }

  private class Session(order: Order, number: Int, draw: Draw) {
    // Mixing with one seed never maps two numbers to one.
    private val id = Mixed(seed, order.number * Sessions + number)
    private val agent = Agents(draw(Agents.size, number, Agent))
    private val day = order.date.getOrElse(FactTable.julianDayOf1970 + 10227 + draw(1826, 0, Day)) - number
    private val second = order.time.getOrElse(draw(86400, 0, Second))
    private val end = Instant.ofEpochSecond((day - FactTable.julianDayOf1970) * 86400L + second)

    def view(seconds: Long, item: Int, referrer: String): Click =
      click(seconds, Click.View, Some(item), None).copy(referrer = Some(referrer))

    def click(seconds: Long, event: String, item: Option[Int], order_number: Option[Long]): Click =
      Click(end.plusSeconds(seconds), id, order.customer, event, item, order_number, None, agent)
  }
}

object ClickStream {

  /** A number from 0 to below the bound, for the n-th thing of a purpose. */
  private type Draw = (Int, Int, Int) => Int

  private val Referrers = IndexedSeq("direct", "search", "mail", "partner", "social", "advert")

  private val Agents = IndexedSeq(
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 Version/18.5 Mobile Safari/604.1"
  )

  /** At most so many sessions, the buying one included, belong to an order. */
  private val Sessions = 3

  private val secondsOfSearch = 3600L

  // What is drawn for; the views of a line each draw a referrer of their own, from Referrer on.
  private val Views = 0
  private val Late = 1
  private val Others = 2
  private val OtherItem = 3
  private val Browsing = 4
  private val Agent = 5
  private val Day = 6
  private val Second = 7
  private val Referrer = 8
  private val Purposes = 1 << 20
}

/** A line of a web shop's log. Which fields there are depends on the event. */
case class Click(
    at: Instant,
    session: Long,
    user: Option[Int],
    event: String,
    item: Option[Int],
    order_number: Option[Long],
    referrer: Option[String],
    agent: String
)

object Click {
  val View = "view"
  val Search = "search"
  val Purchase = "purchase"
}

/** An order as the sales record it; missing values are None. `date` is a Julian day, `time` a second of it. */
case class Order(number: Long, customer: Option[Int], date: Option[Int], time: Option[Int], items: Seq[Int])

/** The views of an order line's item before the purchase: their number, and the referrer of the last. */
case class Interest(order_number: Long, item: Int, clicks: Long, last_referrer: String)
