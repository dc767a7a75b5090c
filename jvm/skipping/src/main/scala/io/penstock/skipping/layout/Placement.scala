package io.penstock.skipping.layout

import io.penstock.skipping.index.Value

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
  case class Cells(first: Int, ranges: Seq[Ranges]) {

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
