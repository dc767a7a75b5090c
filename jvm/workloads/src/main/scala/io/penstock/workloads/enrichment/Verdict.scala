package io.penstock.workloads.enrichment

import io.penstock.workloads.Differences

/** Whether enriched sales are right: pure judgement on numbers. None where they are, else what differs. */
object Verdict {

  /** Every sale is there, once, with all it had before. */
  def sales(source: SalesSummary, found: SalesSummary): Option[String] = Differences.of(
    ("rows", source.rows, found.rows),
    ("different order lines", source.rows, found.lines),
    ("sum of quantities", source.quantity, found.quantity),
    ("sum of net paid", source.paid, found.paid),
    ("checksum of all columns", source.checksum, found.checksum)
  )

  /** Every click that belongs to an order line was counted there, and no other. */
  def clicks(expected: ExpectedClicks, found: ExpectedClicks): Option[String] = Differences.of(
    ("matched clicks", expected.matched, found.matched),
    ("order lines with clicks", expected.lines, found.lines),
    ("checksum of clicks and referrers", expected.checksum, found.checksum)
  )

  /** Every line of the log was read. */
  def log(expected: ExpectedClicks, read: Long, unreadable: Long): Option[String] =
    Differences.of(("lines", expected.clicks, read), ("unreadable lines", 0L, unreadable))

  /** No sale is in another month's partition. */
  def placement(misplaced: Long): Option[String] = Differences.of(("sales in a partition not their own", 0L, misplaced))
}
