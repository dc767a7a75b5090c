package io.penstock.skipping.layout

import java.util.BitSet

import io.penstock.skipping.model.{RangeSet, Value}

/**
 * The layout of a table's rows in objects: a directory for each value of the `partitionBy` columns; within it, each
 * column of `ranges` in turn cuts the rows, and each combination of ranges is an object.
 */
case class Layout(partitionBy: Seq[String], ranges: Seq[RangeLevel]) {

  /** The columns by which rows are sorted within an object. */
  def columns: Seq[String] = partitionBy ++ ranges.map(_.column)

  /** The clauses of `REWRITE TABLE`. */
  def sql: String = {
    val partitions =
      Option.when(partitionBy.nonEmpty)(partitionBy.map(Layout.quoted).mkString("PARTITIONED BY (", ", ", ")"))
    val cuts = Option.when(ranges.nonEmpty)(ranges.map(_.sql).mkString("RANGED BY (", ", ", ")"))
    (partitions ++ cuts).mkString(" ")
  }
}

/**
 * A level of ranges in a layout.
 *
 * @param count
 *   the number of ranges; None where it follows from the sizes of the table and of its objects
 */
case class RangeLevel(column: String, count: Option[Int] = None) {
  def sql: String = Layout.quoted(column) + count.fold("")(n => s" INTO $n")
}

object Layout {

  /**
   * The least part of the wanted object size, 0 to 1: partitions of smaller objects are not worth a listing entry, a
   * footer and a task each.
   */
  val SmallestPart = 0.4

  def quoted(name: String): String = "`" + name.replace("`", "``") + "`"
}

/**
 * The mapping of a table's rows to objects. Pure and immutable.
 *
 * @param partitions
 *   the partitions of the sample, by the values of their columns as Catalyst holds them; without partition columns, one
 *   of no values
 * @param objects
 *   the number of all objects
 */
case class Placement private (partitions: Map[Seq[Any], Placement.Cells], objects: Int) {

  /**
   * The number of a row's object, from 0 on. Rows of a partition outside of the sample share the number of another's
   * object, though not its file.
   */
  def of(partition: Seq[Any], values: Seq[Option[Value]]): Int = partitions.get(partition) match {
    case Some(cells) => cells.of(values)
    case None => Math.floorMod(partition.hashCode, objects)
  }
}

object Placement {

  /** A row of a sample: the values of the partition columns and of the range columns. */
  case class SampledRow(partition: Seq[Any], values: Seq[Option[Value]])

  /** The objects of one partition, numbered from `first` on, one for each combination of its ranges. */
  case class Cells(first: Int, ranges: Seq[CutPoints]) {

    def count: Int = ranges.map(_.count).product

    def of(values: Seq[Option[Value]]): Int = first + ranges.zip(values).foldLeft(0) { case (cell, (ranges, value)) =>
      cell * ranges.count + value.fold(0)(ranges.of)
    }
  }

  /**
   * The placement in objects of about `objectBytes` each, whatever a partition's size.
   *
   * @param bytes
   *   the size of the whole table
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

  /**
   * The fewest sampled rows for an object with cuts of its partition's own; with fewer, the whole table's cuts are
   * better.
   */
  private val RowsPerObject = 20

  private def samples(layout: Layout, rows: Seq[SampledRow]): Seq[ColumnSample] =
    layout.ranges.indices.map(i => ColumnSample.of(rows.map(_.values(i))))

  /** The number of ranges of each level: levels without a given count share the remaining objects evenly. */
  private[layout] def rangeCounts(objects: Double, asked: Seq[Option[Int]]): Seq[Int] = {
    val free = asked.count(_.isEmpty)
    val each = math.max(1, math.round(math.pow(objects / asked.flatten.product, 1.0 / math.max(free, 1))).toInt)
    asked.map(_.getOrElse(each))
  }
}

/**
 * The cuts of a column's values into ranges: range `i` holds the values from `cuts(i - 1)` on and below `cuts(i)`. Null
 * is in the first. Immutable.
 *
 * @param cuts
 *   in ascending order; where two are equal, the range between them is empty
 */
class CutPoints(val cuts: IndexedSeq[Value]) extends Serializable {

  def count: Int = cuts.size + 1

  /** The range of a value. */
  def of(value: Value): Int = CutPoints.firstPlace(cuts.size)(i => Value.ordering.gt(cuts(i), value))

  /** The ranges that may hold one of the keys. */
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

  /** The range of the greatest values below this one. */
  private def below(high: Array[Byte]): Int =
    CutPoints.firstPlace(cuts.size)(i => Value.ordering.gteq(cuts(i), Value.Bytes(high)))
}

object CutPoints {

  /**
   * The first position from 0 on for which `holds` is true, `size` where there is none; it must be true for all later
   * ones.
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
 * One column of a uniform sample of a table's rows. Immutable.
 *
 * @param values
 *   the values that are not null, in ascending order
 */
case class ColumnSample(values: IndexedSeq[Value], nulls: Int) {

  def size: Int = values.size + nulls

  /** Cut the values into this number of ranges with about the same number of rows. */
  def ranges(count: Int): CutPoints =
    if (values.isEmpty) new CutPoints(IndexedSeq.empty)
    else new CutPoints((1 until count).map(i => values((i.toLong * values.size / count).toInt)))

  /** Cut the values into a range for each. */
  def singles: CutPoints = new CutPoints(values.distinctBy(ColumnSample.identity).drop(1))

  /** The share of the table's rows, 0 to 1, in the ranges that may hold one of the keys. */
  def share(ranges: CutPoints, keys: RangeSet): Double =
    if (size == 0) 1
    else {
      val touched = ranges.touched(keys)
      val rows = bounds(touched, ranges).map { case (from, until) => until - from }.sum
      (rows + (if (touched.get(0)) nulls else 0)).toDouble / size
    }

  /**
   * The estimated number of distinct values, without null, in a table of this number of rows: a value that occurs once
   * in the sample stands for `sqrt(rows / sample)` values, each other one for itself (the estimator GEE of Charikar and
   * others, "Towards estimation error guarantees for distinct values", PODS 2000).
   */
  def distinct(rows: Long): Double = {
    val counts = values.groupMapReduce(ColumnSample.identity)(_ => 1)(_ + _).values
    val once = counts.count(_ == 1)
    math.sqrt(math.max(rows, size).toDouble / math.max(size, 1)) * once + (counts.size - once)
  }

  /** The positions of the sample's values in runs of touched ranges. */
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

  /** A key that is equal for equal values, as arrays are not. */
  private def identity(value: Value): Any = value match {
    case Value.Integral(number) => number
    case Value.Bytes(bytes) => java.nio.ByteBuffer.wrap(bytes)
  }
}
