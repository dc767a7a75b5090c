package io.penstock.skipping.layout

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
