package io.penstock.workloads.enrichment

import java.time.Instant

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

/** An order as the sales tell of it; what they leave out is none. `date` is a Julian day, `time` a second of it. */
case class Order(number: Long, customer: Option[Int], date: Option[Int], time: Option[Int], items: Seq[Int])

/** What the log tells of a line of an order: how often its item was viewed before the purchase, and where from last. */
case class Interest(order_number: Long, item: Int, clicks: Long, last_referrer: String)
