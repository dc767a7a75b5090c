package io.penstock.skipping.layout

import java.util.BitSet

import io.penstock.skipping.model.{RangeSet, Value}

/**
 * How a table's rows are shared out among its objects: a directory for each value of the `partitionBy` columns; within
 * it the rows are cut by each column of `ranges` in turn, and each combination of ranges is an object.
 */
case class Layout(partitionBy: Seq[String], ranges: Seq[RangeLevel]) {

  /** Rows are sorted by these within an object. */
  def columns: Seq[String] = partitionBy ++ ranges.map(_.column)

  /** As in `REWRITE TABLE`. */
  def sql: String = {
    val partitions =
      Option.when(partitionBy.nonEmpty)(partitionBy.map(Layout.quoted).mkString("PARTITIONED BY (", ", ", ")"))
    val cuts = Option.when(ranges.nonEmpty)(ranges.map(_.sql).mkString("RANGED BY (", ", ", ")"))
    (partitions ++ cuts).mkString(" ")
  }
}

/**
 * @param count
 *   into how many ranges; none where it follows from the size of the table and of its objects
 */
case class RangeLevel(column: String, count: Option[Int] = None) {
  def sql: String = Layout.quoted(column) + count.fold("")(n => s" INTO $n")
}

object Layout {

  /**
   * Partitions whose objects would be smaller than this part of the size asked for are not worth a listing entry, a
   * footer read and a task each.
   */
  val SmallestPart = 0.4

  def quoted(name: String): String = "`" + name.replace("`", "``") + "`"
}

/**
 * Which object each row of a table belongs to. Pure.
 *
 * @param partitions
 *   the partitions that were known beforehand, by the values of their columns as Catalyst holds them; without partition
 *   columns, one of no values
 * @param objects
 *   how many there are in all
 */
case class Placement private (partitions: Map[Seq[Any], Placement.Cells], objects: Int) {

  /** From 0 on. Rows of a partition that was not known go together, with another's: in a file of their own still. */
  def of(partition: Seq[Any], values: Seq[Option[Value]]): Int = partitions.get(partition) match {
    case Some(cells) => cells.of(values)
    case None => Math.floorMod(partition.hashCode, objects)
  }
}

object Placement {

  /** A row of a sample: the values of the partition columns, and those that ranges are cut by. */
  case class SampledRow(partition: Seq[Any], values: Seq[Option[Value]])

  /** The objects of one partition, from `first` on: one for each combination of its ranges. */
  case class Cells(first: Int, ranges: Seq[CutPoints]) {

    def count: Int = ranges.map(_.count).product

    def of(values: Seq[Option[Value]]): Int = first + ranges.zip(values).foldLeft(0) { case (cell, (ranges, value)) =>
      cell * ranges.count + value.fold(0)(ranges.of)
    }
  }

  /**
   * Objects of about `objectBytes` each, whatever a partition's size.
   *
   * @param bytes
   *   of the whole table
   */
  def of(layout: Layout, sample: Seq[SampledRow], bytes: Long, objectBytes: Long): Placement = {
    val columns = samples(layout, sample)
    val known =
      if (layout.partitionBy.isEmpty) Map(Seq.empty[Any] -> sample)
      else sample.groupBy(_.partition)
    var next = 0
    val partitions = known.map { case (partition, rows) =>
      val share = if (sample.isEmpty) 1.0 else rows.size.toDouble / sample.size
      val counts = rangeCounts(bytes * share / objectBytes, layout.ranges.map(_.count))
      val own = if (rows.size >= counts.product * RowsPerObject) samples(layout, rows) else columns
      val cells = Cells(next, own.zip(counts).map { case (column, count) => column.ranges(count) })
      next += cells.count
      partition -> cells
    }
    new Placement(partitions, math.max(next, 1))
  }

  /** With fewer, chance decides where a partition would be cut: the whole table's cuts are better than its own. */
  private val RowsPerObject = 20

  private def samples(layout: Layout, rows: Seq[SampledRow]): Seq[ColumnSample] =
    layout.ranges.indices.map(i => ColumnSample.of(rows.map(_.values(i))))

  /** Levels without a count of their own share what is left of the objects evenly. */
  private[layout] def rangeCounts(objects: Double, asked: Seq[Option[Int]]): Seq[Int] = {
    val free = asked.count(_.isEmpty)
    val each = math.max(1, math.round(math.pow(objects / asked.flatten.product, 1.0 / math.max(free, 1))).toInt)
    asked.map(_.getOrElse(each))
  }
}

/**
 * A column's values cut into ranges: range `i` holds the values from `cuts(i - 1)` on and below `cuts(i)`. Null is in
 * the first.
 *
 * @param cuts
 *   in ascending order; where two are equal, the range between them is empty
 */
class CutPoints(val cuts: IndexedSeq[Value]) extends Serializable {

  def count: Int = cuts.size + 1

  /** The range of a value. */
  def of(value: Value): Int = CutPoints.firstPlace(cuts.size)(i => Value.ordering.gt(cuts(i), value))

  /** The ranges in which one of the keys may be. */
  def touched(keys: RangeSet): BitSet = {
    val found = new BitSet(count)
    keys match {
      case numbers: RangeSet.Integral =>
        for (i <- 0 until numbers.size)
          found.set(of(Value.Integral(numbers.lows(i))), of(Value.Integral(numbers.highs(i))) + 1)
      case texts: RangeSet.Bytes =>
        for (i <- 0 until texts.size)
          found.set(of(Value.Bytes(texts.lows(i))), Option(texts.highs(i)).fold(count)(below(_) + 1))
    }
    found
  }

  /** The range of the values just below this one. */
  private def below(high: Array[Byte]): Int =
    CutPoints.firstPlace(cuts.size)(i => Value.ordering.gteq(cuts(i), Value.Bytes(high)))
}

object CutPoints {

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

/**
 * What a uniform sample of a table's rows holds in one column.
 *
 * @param values
 *   those that are not null, in ascending order
 */
case class ColumnSample(values: IndexedSeq[Value], nulls: Int) {

  def size: Int = values.size + nulls

  /** So many ranges that hold about as many rows each. */
  def ranges(count: Int): CutPoints =
    if (values.isEmpty) new CutPoints(IndexedSeq.empty)
    else new CutPoints((1 until count).map(i => values((i.toLong * values.size / count).toInt)))

  /** A range for each value. */
  def singles: CutPoints = new CutPoints(values.distinctBy(ColumnSample.identity).drop(1))

  /** The share of the table's rows, 0 to 1, in the ranges in which one of the keys may be. */
  def share(ranges: CutPoints, keys: RangeSet): Double =
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
  private def bounds(touched: BitSet, ranges: CutPoints): Seq[(Int, Int)] =
    Iterator
      .iterate(touched.nextSetBit(0))(last => touched.nextSetBit(touched.nextClearBit(last)))
      .takeWhile(_ >= 0)
      .map(first => (start(first, ranges), start(touched.nextClearBit(first), ranges)))
      .toSeq

  private def start(range: Int, ranges: CutPoints): Int =
    if (range == 0) 0
    else if (range >= ranges.count) values.size
    else CutPoints.firstPlace(values.size)(i => Value.ordering.gteq(values(i), ranges.cuts(range - 1)))
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
