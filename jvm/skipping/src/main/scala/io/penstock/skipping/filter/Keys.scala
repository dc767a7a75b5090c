package io.penstock.skipping.filter

/** Values of a column, as closed intervals in ascending order that do not touch; a single value is one of length 0. */
sealed trait Keys {

  /** How many intervals. */
  def size: Int
}

object Keys {

  /** `lows(i) <= highs(i) < lows(i + 1)`. The arrays are not to be changed. */
  final class Integral(val lows: Array[Long], val highs: Array[Long]) extends Keys {
    override def size: Int = lows.length
  }

  /** In unsigned lexicographic order. The last of `highs` is null where there is no upper bound. */
  final class Bytes(val lows: Array[Array[Byte]], val highs: Array[Array[Byte]]) extends Keys {
    override def size: Int = lows.length
  }
}
