package io.penstock.skipping.layout

import java.util.BitSet

import io.penstock.skipping.filter.Keys
import io.penstock.skipping.index.Value

/**
 * A column's values cut into ranges: range `i` holds the values from `cuts(i - 1)` on and below `cuts(i)`. Null is in
 * the first.
 *
 * @param cuts
 *   in ascending order; where two are equal, the range between them is empty
 */
class Ranges(val cuts: IndexedSeq[Value]) extends Serializable {

  def count: Int = cuts.size + 1

  /** The range of a value. */
  def of(value: Value): Int = Ranges.firstPlace(cuts.size)(i => Value.ordering.gt(cuts(i), value))

  /** The ranges in which one of the keys may be. */
  def touched(keys: Keys): BitSet = {
    val found = new BitSet(count)
    keys match {
      case numbers: Keys.Integral =>
        for (i <- 0 until numbers.size)
          found.set(of(Value.Integral(numbers.lows(i))), of(Value.Integral(numbers.highs(i))) + 1)
      case texts: Keys.Bytes =>
        for (i <- 0 until texts.size)
          found.set(of(Value.Bytes(texts.lows(i))), Option(texts.highs(i)).fold(count)(below(_) + 1))
    }
    found
  }

  /** The range of the values just below this one. */
  private def below(high: Array[Byte]): Int =
    Ranges.firstPlace(cuts.size)(i => Value.ordering.gteq(cuts(i), Value.Bytes(high)))
}

object Ranges {

  /**
   * The first place from 0 on for which it holds, `size` where there is none. It holds for all places after the first.
   */
  private[layout] def firstPlace(size: Int)(holds: Int => Boolean): Int = {
    var low = 0
    var high = size
    while (low < high) {
      val middle = (low + high) >>> 1
      if (holds(middle)) high = middle else low = middle + 1
    }
    low
  }
}
