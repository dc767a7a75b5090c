package io.penstock.skipping.index

import java.util.{Arrays, BitSet, SplittableRandom}

import scala.collection.mutable

import io.penstock.skipping.model.{Domain, IndexedColumn, RangeSet, Value}

/**
 * What is known of one column in all files, told in [[RankEncoding]].
 *
 * @param minimums
 *   the least number where a file's minimum is unknown
 * @param maximums
 *   the greatest number where a file's maximum is unknown
 * @param lists
 *   none for a file without one
 * @param blooms
 *   null for a file without one
 * @param valuesIn
 *   how many rows are not null, at most
 * @param noNulls
 *   files known to hold no null
 * @param noValues
 *   files known to hold nothing but nulls
 */
private[skipping] class ColumnStatistics private (
    codes: RankEncoding,
    minimums: Array[Long],
    maximums: Array[Long],
    lists: ValueLists,
    blooms: Array[BloomFilter],
    valuesIn: Array[Long],
    noNulls: BitSet,
    noValues: BitSet
) {
  import ColumnStatistics._

  /** Files whose minimum and maximum are known. */
  val bounded: Int = minimums.indices.count(isBounded)

  /** See [[ColumnSummary]]. Estimated from values drawn at random, the same ones each time. */
  lazy val filesPerKey: Double = {
    val all = new BitSet
    all.set(0, minimums.length)
    val values = drawnValues
    val held = values.map(value => holding(CodeRanges.point(value), all).cardinality.toLong).sum
    if (values.isEmpty) 1.0 else held.toDouble / (values.length.toLong * minimums.length)
  }

  def withNulls(candidates: BitSet): BitSet = without(candidates, noNulls)

  def withValues(candidates: BitSet): BitSet = without(candidates, noValues)

  def among(keys: RangeSet, candidates: BitSet): BitSet =
    codes.of(keys).fold(candidates)(ranges => without(holding(ranges, candidates), noValues))

  private def holding(ranges: CodeRanges, candidates: BitSet): BitSet = {
    val found = new BitSet(minimums.length)
    var file = candidates.nextSetBit(0)
    while (file >= 0) {
      if (mayHold(file, ranges)) found.set(file)
      file = candidates.nextSetBit(file + 1)
    }
    found
  }

  private def mayHold(file: Int, ranges: CodeRanges): Boolean =
    // A list says all that bounds say, and most are asked in less time than the first range for a bound is found.
    if (lists.has(file)) ranges.meets(lists.values, lists.start(file), lists.end(file))
    else {
      val first = ranges.from(minimums(file))
      first < ranges.size && ranges.lows(first) <= maximums(file) &&
      (blooms(file) == null || ranges.meets(blooms(file), first, minimums(file), maximums(file)))
    }

  private def isBounded(file: Int): Boolean =
    minimums(file) != Unbounded.minimum && maximums(file) != Unbounded.maximum

  /** From files in proportion to their values, since a random row is more often in a large file. */
  private def drawnValues: Seq[Long] = {
    val files = minimums.indices.filter(file => isBounded(file) && valuesIn(file) > 0)
    val ends = files.scanLeft(0L)((sum, file) => sum + valuesIn(file)).tail.toArray
    val random = new SplittableRandom(0)
    def draw(): Long = {
      val row = Arrays.binarySearch(ends, random.nextLong(ends.last))
      val file = files(if (row >= 0) row + 1 else -row - 1)
      if (lists.has(file)) lists.values(random.nextInt(lists.start(file), lists.end(file)))
      else random.nextLong(minimums(file), maximums(file) + 1)
    }
    if (files.isEmpty) Seq.empty else Seq.fill(Draws)(draw())
  }
}

private[skipping] object ColumnStatistics {

  /** The standard error of a share is at most 1/16 then: enough to tell a clustered column from a scattered one. */
  private val Draws = 64

  private object Unbounded {
    val minimum: Long = Long.MinValue
    val maximum: Long = Long.MaxValue
  }

  private def without(candidates: BitSet, others: BitSet): BitSet = {
    val left = candidates.clone().asInstanceOf[BitSet]
    left.andNot(others)
    left
  }

  /** Takes the files in the order of their numbers. */
  class Builder(column: IndexedColumn) {
    private val minimums, maximums = mutable.ArrayBuffer.empty[Option[Value]]
    private val lists = mutable.ArrayBuffer.empty[Option[Seq[Value]]]
    private val blooms = new mutable.ArrayBuilder.ofRef[BloomFilter]
    private val valuesIn = new mutable.ArrayBuilder.ofLong
    private val noNulls, noValues = new BitSet

    def add(rows: Long, entry: Option[ColumnEntry]): Unit = {
      val file = minimums.length
      val known = entry.getOrElse(ColumnEntry())
      // No values at all is what the count of nulls says, if it does; a list then has nothing to add.
      val list = known.values.filter(values => values.nonEmpty && values.forall(isOfDomain))
      minimums += known.minimum.filter(isOfDomain).orElse(list.map(_.head))
      maximums += known.maximum.filter(isOfDomain).orElse(list.map(_.last))
      lists += list
      blooms += known.bloom.orNull
      valuesIn += rows - known.nulls.getOrElse(0L)
      if (known.nulls.contains(0L)) noNulls.set(file)
      if (known.nulls.contains(rows)) noValues.set(file)
    }

    def result(): ColumnStatistics = {
      val codes = RankEncoding.of(
        column.domain,
        minimums.iterator.flatten ++ maximums.iterator.flatten ++ lists.iterator.flatten.flatten
      )
      def coded(bounds: Iterable[Option[Value]], unknown: Long): Array[Long] =
        bounds.iterator.map(_.fold(unknown)(codes.code)).toArray
      val lows = coded(minimums, Unbounded.minimum)
      val highs = coded(maximums, Unbounded.maximum)
      for (file <- lows.indices if lows(file) > highs(file)) {
        // Whatever wrote this, it is not to be believed.
        lows(file) = Unbounded.minimum
        highs(file) = Unbounded.maximum
      }
      val ofFiles = ValueLists.of(lists.iterator.map(_.fold(Array.emptyLongArray)(sorted(codes))))
      new ColumnStatistics(codes, lows, highs, ofFiles, blooms.result(), valuesIn.result(), noNulls, noValues)
    }

    private def sorted(codes: RankEncoding)(values: Seq[Value]): Array[Long] = {
      val list = values.iterator.map(codes.code).toArray
      Arrays.sort(list)
      list
    }

    private def isOfDomain(value: Value): Boolean = value match {
      case _: Value.Integral => column.domain == Domain.Integral
      case _: Value.Bytes => column.domain == Domain.Bytes
    }
  }
}

/**
 * The lists of a column's codes in all files, one after the other: they are gone through in the order of the files, and
 * a list that has to be looked for elsewhere in memory takes longer to find than to search.
 *
 * @param values
 *   ascending in each list; not to be changed
 * @param ends
 *   of the files' lists in `values`; a file without a list has an empty one
 */
private[skipping] final class ValueLists private (val values: Array[Long], ends: Array[Int]) {

  def start(file: Int): Int = if (file == 0) 0 else ends(file - 1)

  def end(file: Int): Int = ends(file)

  def has(file: Int): Boolean = end(file) > start(file)
}

private[skipping] object ValueLists {

  /** Of the files in the order of their numbers, ascending each; empty for a file without one. */
  def of(lists: Iterator[Array[Long]]): ValueLists = {
    val values = new mutable.ArrayBuilder.ofLong
    val ends = new mutable.ArrayBuilder.ofInt
    var end = 0
    for (list <- lists) {
      values.addAll(list)
      end = math.addExact(end, list.length)
      ends += end
    }
    new ValueLists(values.result(), ends.result())
  }
}
