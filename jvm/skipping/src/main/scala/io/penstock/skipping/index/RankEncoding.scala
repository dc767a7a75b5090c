package io.penstock.skipping.index

import java.util.{Arrays, BitSet}

import io.penstock.skipping.model.{Domain, RangeSet, Value}

/**
 * An order-preserving encoding of a column's values as numbers, so that comparing strings costs no more than comparing
 * whole numbers. Immutable and thread-safe.
 */
private[skipping] sealed trait RankEncoding {

  /** The code of a value of those that the encoding was built from. */
  def code(value: Value): Long

  /** The codes of a set of values; None where it is of another domain. */
  def of(keys: RangeSet): Option[CodeRanges]
}

private[skipping] object RankEncoding {

  /** @param values all arguments of later calls of [[RankEncoding.code]] */
  def of(domain: Domain, values: Iterator[Value]): RankEncoding = domain match {
    case Domain.Integral => Numbers
    case Domain.Bytes => new Ranks(values.collect { case Value.Bytes(bytes) => bytes }.toArray)
  }

  /** The identity: whole numbers are their own codes. */
  private object Numbers extends RankEncoding {

    override def code(value: Value): Long = value match {
      case Value.Integral(number) => number
      case _ => throw new IllegalArgumentException("bytes in a column of numbers")
    }

    override def of(keys: RangeSet): Option[CodeRanges] = keys match {
      case numbers: RangeSet.Integral => Some(new NumberRanges(numbers.lows, numbers.highs))
      case _ => None
    }
  }

  /** The rank of a value among all values in the index. */
  private final class Ranks(values: Array[Array[Byte]]) extends RankEncoding {

    private val ranked: Array[Array[Byte]] = {
      Arrays.sort(values, (a: Array[Byte], b: Array[Byte]) => Arrays.compareUnsigned(a, b))
      values.indices.filter(i => i == 0 || !Arrays.equals(values(i - 1), values(i))).map(values(_)).toArray
    }

    override def code(value: Value): Long = value match {
      case Value.Bytes(bytes) => from(bytes)
      case _ => throw new IllegalArgumentException("a number in a column of bytes")
    }

    override def of(keys: RangeSet): Option[CodeRanges] = keys match {
      case bytes: RangeSet.Bytes => Some(ranges(bytes))
      case _ => None
    }

    /**
     * The first to the last rank in each interval. For an interval between two neighbours the last is below the first:
     * a file whose bounds enclose such a range meets it, and no value does.
     */
    private def ranges(keys: RangeSet.Bytes): CodeRanges = new RankRanges(
      keys.lows.map(from),
      keys.highs.map(high => if (high == null) Long.MaxValue else from(high) - 1),
      Array.tabulate(keys.size)(i => if (keys.isPoint(i)) Some(BloomFilter.hash(keys.lows(i))) else None)
    )

    /** The rank of the first value that is at least this one. */
    private def from(value: Array[Byte]): Long = {
      var low = 0
      var high = ranked.length
      while (low < high) {
        val middle = (low + high) >>> 1
        if (Arrays.compareUnsigned(ranked(middle), value) < 0) low = middle + 1 else high = middle
      }
      low.toLong
    }
  }
}

/**
 * A set of values in a column's [[RankEncoding]]: closed ranges; neither `lows` nor `highs` ever descends. Immutable
 * and thread-safe.
 */
private[skipping] sealed abstract class CodeRanges(val lows: Array[Long], val highs: Array[Long]) {

  import CodeRanges.firstAtLeast

  def size: Int = lows.length

  // A table of the first and last candidates for a code, by its upper bits: there is a search for each file and each
  // value of a list.
  private val shift: Int =
    if (size < CodeRanges.FewRanges) 0
    else
      math.max(0, java.lang.Long.SIZE - java.lang.Long.numberOfLeadingZeros(highs.last - highs.head) - CodeRanges.Bits)

  private val starts: Array[Int] =
    if (size < CodeRanges.FewRanges) Array.emptyIntArray
    else {
      val last = ((highs.last - highs.head) >>> shift).toInt
      Array.tabulate(last + 2)(part =>
        if (part > last) size else firstAtLeast(highs, highs.head + (part.toLong << shift), 0, size)
      )
    }

  /** The index of the first range that does not end below a code. */
  def from(code: Long): Int =
    if (size == 0 || code <= highs(0)) 0
    else if (code > highs(size - 1)) size
    else if (starts.isEmpty) firstAtLeast(highs, code, 0, size)
    else {
      val part = ((code - highs(0)) >>> shift).toInt
      firstAtLeast(highs, code, starts(part), starts(part + 1))
    }

  /** Whether one of these codes, ascending from `start` to before `end`, is in one of the ranges. */
  def meets(codes: Array[Long], start: Int, end: Int): Boolean =
    size > 0 &&
      (if (end - start <= CodeRanges.CodesPerRange * size) meetsOneByOne(codes, start, end)
       else meetsByLeaps(codes, start, end))

  // Each side leaps to the position of the other, so that a long list costs little against few ranges.
  private def meetsByLeaps(codes: Array[Long], start: Int, end: Int): Boolean = {
    var range = 0
    var at = start
    var met = false
    while (!met && at < end && range < size)
      if (codes(at) > highs(range)) range = from(codes(at))
      else if (codes(at) < lows(range)) at = firstAtLeast(codes, lows(range), at, end)
      else met = true
    met
  }

  // Against many ranges a leap is hardly longer than a step, and a step needs no search: most codes are in a part of
  // the numbers that no range touches.
  private def meetsOneByOne(codes: Array[Long], start: Int, end: Int): Boolean = {
    val touched = this.touched
    val partShift = this.partShift
    val least = lows(0)
    val last = highs(size - 1) - least
    var at = start
    var met = false
    while (!met && at < end) {
      // As an unsigned number, a code below the least range is above the greatest one, too.
      val place = codes(at) - least
      if (place + Long.MinValue <= last + Long.MinValue) {
        val part = place >>> partShift
        if ((touched((part >>> 6).toInt) & (1L << part)) != 0) {
          val range = from(codes(at))
          met = range < size && lows(range) <= codes(at)
        }
      }
      at += 1
    }
    met
  }

  private lazy val partShift: Int = {
    val parts = CodeRanges.PartsPerRange.toLong * size
    val bits = math.min(CodeRanges.MostPartBits, java.lang.Long.SIZE - java.lang.Long.numberOfLeadingZeros(parts))
    math.max(0, java.lang.Long.SIZE - java.lang.Long.numberOfLeadingZeros(highs(size - 1) - lows(0)) - bits)
  }

  /** A bit for each part of the numbers from the least range to the greatest: whether a range touches it. */
  private lazy val touched: Array[Long] = {
    def part(code: Long): Int = ((code - lows(0)) >>> partShift).toInt
    val bits = new BitSet
    // A range of ranks may be empty.
    for (range <- lows.indices if lows(range) <= highs(range)) bits.set(part(lows(range)), part(highs(range)) + 1)
    Arrays.copyOf(bits.toLongArray, part(highs(size - 1)) / java.lang.Long.SIZE + 1)
  }

  /** Whether a value between these bounds, in one of the ranges from `first` on, may be in the filter. */
  def meets(bloom: BloomFilter, first: Int, minimum: Long, maximum: Long): Boolean = {
    var range = first
    var met = false
    while (!met && range < size && lows(range) <= maximum) {
      met = range - first >= CodeRanges.MaxProbes ||
        mightHold(bloom, range, math.max(lows(range), minimum), math.min(highs(range), maximum))
      range += 1
    }
    met
  }

  /** Whether a value of the range, and from `low` to `high`, may be in the filter. */
  protected def mightHold(bloom: BloomFilter, range: Int, low: Long, high: Long): Boolean
}

private[skipping] object CodeRanges {

  /** With one false positive in a hundred, a filter matches more values than this nine times in ten. */
  val MaxProbes = 256

  /** The range of one code, to be compared with lists and bounds only. */
  def point(code: Long): CodeRanges = new NumberRanges(Array(code), Array(code))

  /** Below this number of ranges a search is as fast without the table. */
  private val FewRanges = 16

  /** The bits of a code that index the table: it fits the processor's first-level cache. */
  private val Bits = 11

  /** Above this number of codes for each range, leaps are faster than steps. */
  private val CodesPerRange = 8

  /**
   * With this number of parts for each range, about one in a thousand codes outside of all ranges is searched in vain.
   */
  private val PartsPerRange = 1024

  /** The most bits of the number of parts: they fit the processor's second-level cache. */
  private val MostPartBits = 20

  /**
   * The first position, from `start` to before `end`, of a number that is at least this one; `end` where there is none.
   */
  private def firstAtLeast(ascending: Array[Long], number: Long, start: Int, end: Int): Int = {
    var low = start
    var high = end
    while (low < high) {
      val middle = (low + high) >>> 1
      if (ascending(middle) < number) low = middle + 1 else high = middle
    }
    low
  }
}

private[skipping] final class NumberRanges(lows: Array[Long], highs: Array[Long]) extends CodeRanges(lows, highs) {

  override protected def mightHold(bloom: BloomFilter, range: Int, low: Long, high: Long): Boolean = {
    val width = high - low
    // The width is negative where it overflows.
    width < 0 || width >= CodeRanges.MaxProbes || {
      var number = low
      while (number < high && !bloom.mightContain(BloomFilter.hash(number))) number += 1
      bloom.mightContain(BloomFilter.hash(number))
    }
  }
}

/** @param hashes the Bloom hashes of the ranges that hold one value only */
private[skipping] final class RankRanges(lows: Array[Long], highs: Array[Long], hashes: Array[Option[Long]])
    extends CodeRanges(lows, highs) {

  override protected def mightHold(bloom: BloomFilter, range: Int, low: Long, high: Long): Boolean =
    hashes(range).forall(bloom.mightContain)
}
