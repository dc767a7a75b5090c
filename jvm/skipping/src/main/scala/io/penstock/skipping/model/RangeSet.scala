package io.penstock.skipping.model

import java.lang.{Long => JavaLong}
import java.util.Arrays

import scala.collection.mutable

/**
 * A set of a column's values, as intervals in ascending order that neither overlap nor touch. Immutable. The two
 * domains are closed under complement, so that no operation rounds, except for [[compressed]], which only adds values.
 */
sealed trait RangeSet {

  def domain: Domain

  /** The number of intervals. */
  def size: Int

  def isEmpty: Boolean = size == 0

  /** Whether the set holds every value of the domain. */
  def isEverything: Boolean

  def complement: RangeSet

  /** Throws an `IllegalArgumentException` where the sets are of two domains. */
  def intersect(other: RangeSet): RangeSet

  /** Throws an `IllegalArgumentException` where the sets are of two domains. */
  def union(other: RangeSet): RangeSet = complement.intersect(other.complement).complement

  /** A set of at most `limit` (at least 1) intervals that holds this one: the narrowest gaps are filled. */
  def compressed(limit: Int): RangeSet
}

object RangeSet {

  /** Closed intervals: `lows(i) <= highs(i)` and `highs(i) + 1 < lows(i + 1)`. The arrays are read-only. */
  final class Integral private (val lows: Array[Long], val highs: Array[Long]) extends RangeSet {

    override def domain: Domain = Domain.Integral

    override def size: Int = lows.length

    override def isEverything: Boolean = size == 1 && lows(0) == Long.MinValue && highs(0) == Long.MaxValue

    override def complement: Integral = {
      val gaps = new Integral.Builder
      var low = Long.MinValue
      for (i <- lows.indices) {
        if (lows(i) > Long.MinValue) gaps.add(low, lows(i) - 1)
        low = highs(i) + 1
      }
      if (isEmpty || highs.last < Long.MaxValue) gaps.add(low, Long.MaxValue)
      gaps.result()
    }

    override def intersect(other: RangeSet): Integral = other match {
      case that: Integral =>
        val common = new Integral.Builder
        var i = 0
        var j = 0
        while (i < size && j < that.size) {
          val low = math.max(lows(i), that.lows(j))
          val high = math.min(highs(i), that.highs(j))
          if (low <= high) common.add(low, high)
          if (highs(i) < that.highs(j)) i += 1 else j += 1
        }
        common.result()
      case _ => throw mixed
    }

    override def compressed(limit: Int): Integral =
      if (size <= limit) this
      else {
        val last = widest(Array.tabulate(size - 1)(i => lows(i + 1) - highs(i)), limit - 1)
        new Integral(firsts(last).map(lows(_)), (last :+ size - 1).map(highs(_)))
      }
  }

  object Integral {
    val Nothing = new Integral(Array.emptyLongArray, Array.emptyLongArray)

    /** The numbers from `low` to `high`, both included; empty where `low > high`. */
    def interval(low: Long, high: Long): Integral =
      if (low > high) Nothing else new Integral(Array(low), Array(high))

    /** These numbers, in any order; they may repeat. */
    def points(values: Array[Long]): Integral = {
      val sorted = values.clone()
      Arrays.sort(sorted)
      val runs = new Builder
      sorted.foreach(runs.addPoint)
      runs.result()
    }

    /** A builder from intervals in ascending order that do not overlap. */
    private final class Builder {
      private val lows = new mutable.ArrayBuilder.ofLong
      private val highs = new mutable.ArrayBuilder.ofLong
      private var low, high = 0L
      private var open = false

      def add(nextLow: Long, nextHigh: Long): Unit = {
        close()
        low = nextLow
        high = nextHigh
        open = true
      }

      def addPoint(value: Long): Unit =
        if (open && (value == high || value - 1 == high)) high = value else add(value, value)

      def result(): Integral = {
        close()
        new Integral(lows.result(), highs.result())
      }

      private def close(): Unit = if (open) {
        lows += low
        highs += high
      }
    }
  }

  /**
   * Half-open intervals in unsigned lexicographic order, which hold their low end only; the last of `highs` is null
   * where there is no upper bound. The value after `s` is `s` followed by a zero byte: a single value is the interval
   * between these two.
   */
  final class Bytes private (val lows: Array[Array[Byte]], val highs: Array[Array[Byte]]) extends RangeSet {

    override def domain: Domain = Domain.Bytes

    override def size: Int = lows.length

    override def isEverything: Boolean = size == 1 && lows(0).isEmpty && highs(0) == null

    /** Whether the interval holds one value. */
    def isPoint(i: Int): Boolean = {
      val high = highs(i)
      high != null && high.length == lows(i).length + 1 && high.last == 0 &&
      Arrays.equals(lows(i), 0, lows(i).length, high, 0, lows(i).length)
    }

    override def complement: Bytes = {
      // A first interval from the least value on leaves no gap before it, and an unbounded one none after it.
      val ends = lows :+ null
      val gaps = (Bytes.Least +: highs.filter(_ != null)).zip(ends).filter { case (_, high) =>
        high == null || high.nonEmpty
      }
      new Bytes(gaps.map(_._1), gaps.map(_._2))
    }

    override def intersect(other: RangeSet): Bytes = other match {
      case that: Bytes =>
        val common = Array.newBuilder[(Array[Byte], Array[Byte])]
        var i = 0
        var j = 0
        while (i < size && j < that.size) {
          val low = if (Arrays.compareUnsigned(lows(i), that.lows(j)) < 0) that.lows(j) else lows(i)
          val first = Bytes.compareHighs(highs(i), that.highs(j)) < 0
          val high = if (first) highs(i) else that.highs(j)
          if (high == null || Arrays.compareUnsigned(low, high) < 0) common += low -> high
          if (first) i += 1 else j += 1
        }
        val (commonLows, commonHighs) = common.result().unzip
        new Bytes(commonLows, commonHighs)
      case _ => throw mixed
    }

    override def compressed(limit: Int): Bytes =
      if (size <= limit) this
      else {
        val common = Bytes.commonPrefix(lows(0), lows(size - 1))
        val gaps = Array.tabulate(size - 1)(i => Bytes.number(lows(i + 1), common) - Bytes.number(highs(i), common))
        val last = widest(gaps, limit - 1)
        new Bytes(firsts(last).map(lows(_)), (last :+ size - 1).map(highs(_)))
      }
  }

  object Bytes {
    private val Least = Array.emptyByteArray

    val Nothing = new Bytes(Array.empty, Array.empty)

    def atLeast(low: Array[Byte]): Bytes = interval(low, null)

    def greaterThan(low: Array[Byte]): Bytes = interval(successor(low), null)

    /** The values from `low`, included, to `high`, excluded (null: unbounded). Empty where `low >= high`. */
    def interval(low: Array[Byte], high: Array[Byte]): Bytes =
      if (high != null && Arrays.compareUnsigned(low, high) >= 0) Nothing else new Bytes(Array(low), Array(high))

    /** All values with this prefix. */
    def prefix(start: Array[Byte]): Bytes = {
      // The first value after all of these: raise the last byte that can be raised, and drop the bytes after it.
      val raised = start.lastIndexWhere(_ != -1)
      if (raised < 0) atLeast(start)
      else {
        val end = start.take(raised + 1)
        end(raised) = (end(raised) + 1).toByte
        interval(start, end)
      }
    }

    /** These values, in any order; they may repeat. */
    def points(values: Array[Array[Byte]]): Bytes = {
      val sorted = values.clone()
      Arrays.sort(sorted, (a: Array[Byte], b: Array[Byte]) => Arrays.compareUnsigned(a, b))
      val lows = Array.newBuilder[Array[Byte]]
      val highs = mutable.ArrayBuffer.empty[Array[Byte]]
      for (value <- sorted) {
        val known = highs.nonEmpty && Arrays.compareUnsigned(value, highs.last) < 0
        if (!known) {
          if (highs.nonEmpty && Arrays.equals(value, highs.last)) highs(highs.length - 1) = successor(value)
          else {
            lows += value
            highs += successor(value)
          }
        }
      }
      new Bytes(lows.result(), highs.toArray)
    }

    /** The least value greater than this one. */
    private def successor(value: Array[Byte]): Array[Byte] = Arrays.copyOf(value, value.length + 1)

    private def compareHighs(a: Array[Byte], b: Array[Byte]): Int =
      if (a == null) { if (b == null) 0 else 1 }
      else if (b == null) -1
      else Arrays.compareUnsigned(a, b)

    private def commonPrefix(a: Array[Byte], b: Array[Byte]): Int = {
      val different = Arrays.mismatch(a, b)
      if (different < 0) a.length else different
    }

    /** The eight bytes from an offset on, as an unsigned number, for the approximate distance of two values. */
    private def number(value: Array[Byte], offset: Int): Long =
      (offset until offset + JavaLong.BYTES).foldLeft(0L) { (sum, i) =>
        (sum << 8) | (if (i < value.length) value(i) & 0xffL else 0L)
      }
  }

  /** The positions, in ascending order, of the `count` largest of these unsigned numbers. */
  private def widest(gaps: Array[Long], count: Int): Array[Int] = {
    // With the sign flipped, unsigned numbers are in the order of signed ones.
    val ordered = gaps.map(_ ^ Long.MinValue)
    val sorted = ordered.clone()
    Arrays.sort(sorted)
    val threshold = if (count == 0) Long.MaxValue else sorted(sorted.length - count)
    var ties = count - ordered.count(_ > threshold)
    gaps.indices.filter { i =>
      ordered(i) > threshold || (ordered(i) == threshold && ties > 0 && { ties -= 1; true })
    }.toArray
  }

  /** The first positions of the groups that end at these positions. */
  private def firsts(lasts: Array[Int]): Array[Int] = 0 +: lasts.map(_ + 1)

  private def mixed = new IllegalArgumentException("sets of values of two domains cannot be combined")
}
