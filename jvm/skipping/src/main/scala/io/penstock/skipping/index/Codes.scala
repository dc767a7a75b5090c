package io.penstock.skipping.index

import java.util.Arrays

import io.penstock.skipping.filter.Keys

/**
 * A column's values as numbers in the same order, so that strings cost no more to compare, file by file, than whole
 * numbers.
 */
private[index] sealed trait Codes {

  /** Of a value that the codes were made for. */
  def code(value: Value): Long

  /** None where the keys are of another domain. */
  def of(keys: Keys): Option[CodeRanges]
}

private[index] object Codes {

  /** @param values all that are going to be asked for by [[Codes.code]] */
  def of(domain: Domain, values: Iterator[Value]): Codes = domain match {
    case Domain.Integral => Numbers
    case Domain.Bytes => new Ranks(values.collect { case Value.Bytes(bytes) => bytes }.toArray)
  }

  /** Whole numbers are their own codes. */
  private object Numbers extends Codes {

    override def code(value: Value): Long = value match {
      case Value.Integral(number) => number
      case _ => throw new IllegalArgumentException("bytes in a column of numbers")
    }

    override def of(keys: Keys): Option[CodeRanges] = keys match {
      case numbers: Keys.Integral => Some(new NumberRanges(numbers.lows, numbers.highs))
      case _ => None
    }
  }

  /** Each value's place among all that occur in the index. */
  private final class Ranks(values: Array[Array[Byte]]) extends Codes {

    private val ranked: Array[Array[Byte]] = {
      Arrays.sort(values, (a: Array[Byte], b: Array[Byte]) => Arrays.compareUnsigned(a, b))
      values.indices.filter(i => i == 0 || !Arrays.equals(values(i - 1), values(i))).map(values(_)).toArray
    }

    override def code(value: Value): Long = value match {
      case Value.Bytes(bytes) => from(bytes)
      case _ => throw new IllegalArgumentException("a number in a column of bytes")
    }

    override def of(keys: Keys): Option[CodeRanges] = keys match {
      case bytes: Keys.Bytes => Some(ranges(bytes))
      case _ => None
    }

    /**
     * From the first rank in an interval to the last one. Between two neighbours' places the latter is before the
     * former: such a range is met by a file whose values lie around it, and by no value of its own.
     */
    private def ranges(keys: Keys.Bytes): CodeRanges = new RankRanges(
      keys.lows.map(from),
      keys.highs.map(high => if (high == null) Long.MaxValue else from(high) - 1),
      Array.tabulate(keys.size)(i => if (keys.isPoint(i)) Some(Bloom.hash(keys.lows(i))) else None)
    )

    /** The rank of the first value that is not less. */
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
