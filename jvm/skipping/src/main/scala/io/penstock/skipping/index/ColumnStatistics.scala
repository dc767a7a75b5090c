package io.penstock.skipping.index

import java.util.{Arrays, BitSet, SplittableRandom}

import scala.collection.mutable

import io.penstock.skipping.model.{Domain, IndexedColumn, RangeSet, Value}

/**
 * The statistics of one column in all files, in codes of a [[RankEncoding]]. Immutable and thread-safe.
 *
 * @param minimums
 *   by file; `Long.MinValue` where the minimum is unknown
 * @param maximums
 *   by file; `Long.MaxValue` where the maximum is unknown
 * @param lists
 *   the value lists; empty for a file without one
 * @param blooms
 *   by file; null where there is none
 * @param valuesIn
 *   an upper bound of the rows that are not null, by file
 * @param noNulls
 *   the files without nulls, as far as known
 * @param noValues
 *   the files of nulls only, as far as known
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

  /** The estimate for [[ColumnSummary]], from randomly drawn values, which are the same each time. */
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
    // A list is more precise than bounds, and mostly faster than the search for a bound's first range.
    if (lists.has(file)) ranges.meets(lists.values, lists.start(file), lists.end(file))
    else {
      val first = ranges.from(minimums(file))
      first < ranges.size && ranges.lows(first) <= maximums(file) &&
      (blooms(file) == null || ranges.meets(blooms(file), first, minimums(file), maximums(file)))
    }

  private def isBounded(file: Int): Boolean =
    minimums(file) != Unbounded.minimum && maximums(file) != Unbounded.maximum

  /** Draw values, from each file in proportion to its rows, since a random row is more often in a large file. */
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

  /** A standard error of at most 1/16, which distinguishes a clustered column from a scattered one. */
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

  /** A builder that takes the files in the order of their numbers. */
  class Builder(column: IndexedColumn) {
    private val minimums, maximums = mutable.ArrayBuffer.empty[Option[Value]]
    private val lists = mutable.ArrayBuffer.empty[Option[Seq[Value]]]
    private val blooms = new mutable.ArrayBuilder.ofRef[BloomFilter]
    private val valuesIn = new mutable.ArrayBuilder.ofLong
    private val noNulls, noValues = new BitSet

    def add(rows: Long, entry: Option[ColumnEntry]): Unit = {
      val file = minimums.length
      val known = entry.getOrElse(ColumnEntry())
      // An empty list says no more than the count of nulls.
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
        // Bounds that contradict each other are unknown.
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
 * A column's value lists of all files, one after the other in one array: searches follow the order of the files, and an
 * array per file would cost more in cache misses than the search itself.
 *
 * @param values
 *   ascending within each list; read-only
 * @param ends
 *   the end of each file's list in `values`; a file without a list has an empty one
 */
private[skipping] final class ValueLists private (val values: Array[Long], ends: Array[Int]) {

  def start(file: Int): Int = if (file == 0) 0 else ends(file - 1)

  def end(file: Int): Int = ends(file)

  def has(file: Int): Boolean = end(file) > start(file)
}

private[skipping] object ValueLists {

  /** The lists of all files, by number; each is ascending, and empty for a file without one. */
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
