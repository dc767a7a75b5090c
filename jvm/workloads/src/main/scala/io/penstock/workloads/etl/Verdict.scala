package io.penstock.workloads.etl

import io.penstock.workloads.Differences

/** Whether what was converted is what was generated: pure judgement on numbers. None where it is, else what differs. */
class Verdict(expected: Expected) {

  def good(found: Summary): Option[String] = Differences.of(
    ("rows", expected.good.rows, found.rows),
    ("sum of quantities", expected.good.quantity, found.quantity),
    ("sum of prices", expected.good.price, found.price),
    ("checksum of all columns", expected.good.checksum, found.checksum)
  )

  /** Every bad line was kept, under its own fault, byte for byte. */
  def bad(found: Seq[FaultCount], checksum: BigDecimal): Option[String] = {
    val counts = found.map(one => one.fault -> one.rows).toMap
    val byFault = expected.bad.map(one => (s"lines with a bad ${one.fault}", one.rows, counts.getOrElse(one.fault, 0L)))
    val unknown = (counts -- expected.bad.map(_.fault)).map { case (fault, rows) =>
      (s"lines with a bad $fault", 0L, rows)
    }
    Differences.of((byFault ++ unknown :+ (("checksum of the bad lines", expected.badChecksum, checksum))): _*)
  }

  /** No line is neither good nor bad, and none both. */
  def lines(read: Long, good: Long, bad: Seq[FaultCount]): Option[String] =
    Differences.of(("lines", expected.rows, read), ("good and bad rows", read, good + bad.map(_.rows).sum))
}
