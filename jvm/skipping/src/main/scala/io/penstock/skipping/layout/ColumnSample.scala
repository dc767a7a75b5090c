package io.penstock.skipping.layout

import java.util.BitSet

import io.penstock.skipping.filter.Keys
import io.penstock.skipping.index.Value

/**
 * What a uniform sample of a table's rows holds in one column.
 *
 * @param values
 *   those that are not null, in ascending order
 */
case class ColumnSample(values: IndexedSeq[Value], nulls: Int) {

  def size: Int = values.size + nulls

  /** So many ranges that hold about as many rows each. */
  def ranges(count: Int): Ranges =
    if (values.isEmpty) new Ranges(IndexedSeq.empty)
    else new Ranges((1 until count).map(i => values((i.toLong * values.size / count).toInt)))

  /** A range for each value. */
  def singles: Ranges = new Ranges(values.distinctBy(ColumnSample.identity).drop(1))

  /** The share of the table's rows, 0 to 1, in the ranges in which one of the keys may be. */
  def share(ranges: Ranges, keys: Keys): Double =
    if (size == 0) 1
    else {
      val touched = ranges.touched(keys)
      val rows = bounds(touched, ranges).map { case (from, until) => until - from }.sum
      (rows + (if (touched.get(0)) nulls else 0)).toDouble / size
    }

  /**
   * How many distinct values a table of so many rows has, null not among them: a value that the sample holds once
   * stands for `sqrt(rows / sample)` of them, all others for themselves (the estimator GEE of Charikar and others,
   * "Towards estimation error guarantees for distinct values", PODS 2000).
   */
  def distinct(rows: Long): Double = {
    val counts = values.groupMapReduce(ColumnSample.identity)(_ => 1)(_ + _).values
    val once = counts.count(_ == 1)
    math.sqrt(math.max(rows, size).toDouble / math.max(size, 1)) * once + (counts.size - once)
  }

  /** The places of the sample's values that are in runs of touched ranges. */
  private def bounds(touched: BitSet, ranges: Ranges): Seq[(Int, Int)] =
    Iterator
      .iterate(touched.nextSetBit(0))(last => touched.nextSetBit(touched.nextClearBit(last)))
      .takeWhile(_ >= 0)
      .map(first => (start(first, ranges), start(touched.nextClearBit(first), ranges)))
      .toSeq

  private def start(range: Int, ranges: Ranges): Int =
    if (range == 0) 0
    else if (range >= ranges.count) values.size
    else Ranges.firstPlace(values.size)(i => Value.ordering.gteq(values(i), ranges.cuts(range - 1)))
}

object ColumnSample {

  def of(values: Seq[Option[Value]]): ColumnSample =
    ColumnSample(values.flatten.sorted.toIndexedSeq, values.count(_.isEmpty))

  /** Equal for equal values, which arrays are not. */
  private def identity(value: Value): Any = value match {
    case Value.Integral(number) => number
    case Value.Bytes(bytes) => java.nio.ByteBuffer.wrap(bytes)
  }
}
