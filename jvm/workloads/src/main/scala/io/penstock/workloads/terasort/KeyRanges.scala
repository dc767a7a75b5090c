package io.penstock.workloads.terasort

/**
 * The ranges of keys that become partitions: the first holds the keys below the first bound, each other one the keys
 * from its bound up, to before the next one's.
 *
 * `bounds` are ascending; two equal ones have an empty range between them.
 */
final class KeyRanges(bounds: IndexedSeq[Key]) extends Serializable {
  import KeyRanges._

  private val prefixes = bounds.map(_.prefix).toArray
  private val tails = bounds.map(_.tail).toArray

  /** How many bounds have a smaller first two bytes: between one entry and the next is all that is left to search. */
  private val firstBytes: Array[Int] = {
    val below = new Array[Int](Lookup + 1)
    for (prefix <- prefixes) below(leading(prefix) + 1) += 1
    below.scanLeft(0)(_ + _).tail
  }

  def count: Int = prefixes.length + 1

  /** The range of a key: how many bounds are not above it. */
  def of(prefix: Long, tail: Int): Int = {
    val first = leading(prefix)
    var low = firstBytes(first)
    var high = firstBytes(first + 1)
    while (low < high) {
      val middle = (low + high) >>> 1
      if (isAbove(middle, prefix, tail)) high = middle else low = middle + 1
    }
    low
  }

  private def isAbove(bound: Int, prefix: Long, tail: Int): Boolean = {
    val first = java.lang.Long.compareUnsigned(prefixes(bound), prefix)
    first > 0 || (first == 0 && tails(bound) > tail)
  }
}

object KeyRanges {
  private val Lookup = 1 << 16

  private def leading(prefix: Long): Int = (prefix >>> 48).toInt

  /** Ranges that each hold as many of the sampled records, as nearly as their keys allow. */
  def even(sample: RecordBuffer, ranges: Int): KeyRanges = {
    require(ranges >= 1, s"$ranges ranges")
    val order = RecordSort.order(sample)
    val bounds = for (range <- 1 until ranges if order.nonEmpty) yield {
      val record = order((range.toLong * order.length / ranges).toInt)
      Key(sample.prefix(record), sample.tail(record))
    }
    new KeyRanges(bounds)
  }
}
