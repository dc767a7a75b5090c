package io.penstock.skipping.index

import java.util.Arrays

/** Bounds of a file's column from those of its row groups. */
private[index] object Bounds {

  /** Longer ones would only make the index large: few values differ first in what comes after. */
  private val LongestBytes = 64

  /** What the footer says of one row group: `bounds` are the least and the greatest value, where they are known. */
  case class Chunk(rows: Long, nulls: Option[Long], bounds: Option[(Value, Value)]) {
    def hasNoValues: Boolean = nulls.contains(rows)

    /** A writer that contradicts itself is not believed. */
    def isBounded: Boolean = bounds.exists { case (low, high) => Value.ordering.lteq(low, high) }
  }

  def of(chunks: Seq[Chunk]): ColumnEntry = {
    val nulls = Option.when(chunks.forall(_.nulls.isDefined))(chunks.flatMap(_.nulls).sum)
    val withValues = chunks.filterNot(_.hasNoValues)
    if (withValues.isEmpty || !withValues.forall(_.isBounded)) ColumnEntry(nulls)
    else {
      val (lows, highs) = withValues.flatMap(_.bounds).unzip
      ColumnEntry(nulls, minimum = Some(below(lows.min)), maximum = above(highs.max))
    }
  }

  def isShort(value: Value): Boolean = value match {
    case Value.Bytes(bytes) => bytes.length <= LongestBytes
    case _: Value.Integral => true
  }

  /** A value of limited length that is no greater. */
  private[index] def below(value: Value): Value = value match {
    case Value.Bytes(bytes) if bytes.length > LongestBytes => Value.Bytes(Arrays.copyOf(bytes, LongestBytes))
    case short => short
  }

  /** A value of limited length that is no smaller, if there is one. */
  private[index] def above(value: Value): Option[Value] = value match {
    case Value.Bytes(bytes) if bytes.length > LongestBytes =>
      // The last byte that can be raised; what comes after it may then be cut off.
      val last = bytes.lastIndexWhere(_ != -1, LongestBytes - 1)
      Option.when(last >= 0) {
        val raised = Arrays.copyOf(bytes, last + 1)
        raised(last) = (raised(last) + 1).toByte
        Value.Bytes(raised)
      }
    case short => Some(short)
  }
}
