package io.penstock.workloads.ingest

/**
 * How many requests took how long, to 1/64 of the time. The buckets are the same for all, so histograms can be added.
 * Below 128 µs they are of one microsecond; above, each power of two is divided into 64, as HdrHistogram does.
 */
class Latencies extends Serializable {
  import Latencies._

  private val counts = new Array[Long](Buckets)

  def add(nanos: Long): Unit = counts(bucket(nanos / 1000)) += 1

  def +=(other: Latencies): Unit = for (index <- counts.indices) counts(index) += other.counts(index)

  /** Upper bound in microseconds and number of those at or below it and above the bound before; no empty ones. */
  def histogram: Seq[(Long, Long)] =
    counts.indices.collect { case index if counts(index) > 0 => highest(index) -> counts(index) }
}

private[ingest] object Latencies {
  private val SubBits = 6
  private val Sub = 1 << SubBits
  private val Longest = (1L << 40) - 1 // twelve days
  private val Buckets = bucket(Longest) + 1

  def bucket(micros: Long): Int = {
    val value = math.min(math.max(micros, 0), Longest)
    val shift = math.max(0, java.lang.Long.SIZE - java.lang.Long.numberOfLeadingZeros(value) - SubBits - 1)
    shift * Sub + (value >>> shift).toInt
  }

  /** The largest number of microseconds in the bucket. */
  def highest(bucket: Int): Long =
    if (bucket < 2 * Sub) bucket.toLong
    else {
      val shift = bucket / Sub - 1
      ((bucket % Sub + Sub + 1L) << shift) - 1
    }
}
