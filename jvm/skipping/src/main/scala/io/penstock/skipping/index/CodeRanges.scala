package io.penstock.skipping.index

/** Keys in a column's [[Codes]]: closed ranges; neither `lows` nor `highs` ever descends. */
private[index] sealed abstract class CodeRanges(val lows: Array[Long], val highs: Array[Long]) {

  def size: Int = lows.length

  /** The first range that does not end below a code. */
  def from(code: Long): Int = CodeRanges.firstAtLeast(highs, code, 0)

  /** Whether one of these codes, in ascending order, is in one of the ranges from `first` on. */
  def meets(codes: Array[Long], first: Int): Boolean = {
    // Each side leaps to where the other one is, so that a long list costs little against few ranges and vice versa.
    var range = first
    var at = 0
    var met = false
    while (!met && at < codes.length && range < size)
      if (codes(at) > highs(range)) range = CodeRanges.firstAtLeast(highs, codes(at), range)
      else if (codes(at) < lows(range)) at = CodeRanges.firstAtLeast(codes, lows(range), at)
      else met = true
    met
  }

  /** Whether a value between these bounds, in one of the ranges from `first` on, may be in the filter. */
  def meets(bloom: Bloom, first: Int, minimum: Long, maximum: Long): Boolean = {
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
  protected def mightHold(bloom: Bloom, range: Int, low: Long, high: Long): Boolean
}

private[index] object CodeRanges {

  /** With one false positive in a hundred, a filter asked for more values than this says yes nine times in ten. */
  val MaxProbes = 256

  /** Asks nothing of blooms. */
  def point(code: Long): CodeRanges = new NumberRanges(Array(code), Array(code))

  /** The first place, from `start` on, of a number that is not less. */
  def firstAtLeast(ascending: Array[Long], number: Long, start: Int): Int = {
    var low = start
    var high = ascending.length
    while (low < high) {
      val middle = (low + high) >>> 1
      if (ascending(middle) < number) low = middle + 1 else high = middle
    }
    low
  }
}

private[index] final class NumberRanges(lows: Array[Long], highs: Array[Long]) extends CodeRanges(lows, highs) {

  override protected def mightHold(bloom: Bloom, range: Int, low: Long, high: Long): Boolean = {
    val width = high - low
    // Negative where it overflows.
    width < 0 || width >= CodeRanges.MaxProbes || {
      var number = low
      while (number < high && !bloom.mightContain(Bloom.hash(number))) number += 1
      bloom.mightContain(Bloom.hash(number))
    }
  }
}

/** @param hashes of the ranges that hold one value only */
private[index] final class RankRanges(lows: Array[Long], highs: Array[Long], hashes: Array[Option[Long]])
    extends CodeRanges(lows, highs) {

  override protected def mightHold(bloom: Bloom, range: Int, low: Long, high: Long): Boolean =
    hashes(range).forall(bloom.mightContain)
}
