package io.penstock.workloads.tpcds

/** How long a span of time one partition of a fact table covers. `columnSuffix` names the partition column. */
sealed abstract class Granularity(val name: String, val columnSuffix: String, val partitionsPerYear: Double)

object Granularity {
  case object Day extends Granularity("day", "date_sk", 365.25)
  case object Month extends Granularity("month", "month", 12)
  case object Quarter extends Granularity("quarter", "quarter", 4)
  case object Year extends Granularity("year", "year", 1)

  val finestFirst: Seq[Granularity] = Seq(Day, Month, Quarter, Year)
}

/** By which rule the fact tables are laid out. `name` is what users ask for. */
sealed abstract class Design(val name: String)

object Design {

  /** Hive partitions by date of the finest granularity that fills its objects; none where not even years do. */
  case object BySize extends Design("by-size")

  /** Hive partitions by the date key, which queries join on, however small that makes the objects. */
  case object ByDay extends Design("by-day")

  /** No Hive partitions: every object is of a range of dates and a range of items, and filled. Of inventory too. */
  case object ByRange extends Design("by-range")

  /** From another data set, by size, as the skipping extension advises by what was asked of that one. */
  case object ByAdvice extends Design("advised")

  val all: Seq[Design] = Seq(BySize, ByDay, ByRange, ByAdvice)
}

/** Where the rows of a table go. `bytes` is what it is expected to take as Parquet. */
sealed trait Layout {
  def bytes: Long
}

/** `files` files in the order of generation. */
case class Plain(bytes: Long, files: Int) extends Layout

/** A fact table in one directory: `files` files that share the items out by range. */
case class Ranged(bytes: Long, files: Int) extends Layout

/**
 * A fact table in Hive partitions of `granularity`, each range-partitioned by item into `filesPerPartition` files. The
 * rows without a date are one more partition, of `filesWithoutDate` files.
 */
case class Partitioned(bytes: Long, granularity: Granularity, filesPerPartition: Int, filesWithoutDate: Int)
    extends Layout

/**
 * A fact table in one directory: `dateRanges` times `itemRanges` files, each of one range of dates and one of items.
 * The rows without a date are in `filesWithoutDate` files of their own.
 */
case class Gridded(bytes: Long, dateRanges: Int, itemRanges: Int, filesWithoutDate: Int) extends Layout

/** The policy: how a table of an expected size is laid out. Pure; nothing here reads or writes. */
object Layout {

  /**
   * Partitions whose objects would be smaller than this part of the size asked for are not worth a listing entry, a
   * footer read and a task each.
   */
  private val SmallestPart = 0.4

  /** The sold date is null in 4.5 % of store sales, and in fewer rows of the other fact tables. */
  private val WithoutDate = 0.045

  def plain(bytes: Long, objectSize: Long): Layout = Plain(bytes, files(bytes.toDouble, objectSize))

  def fact(bytes: Long, objectSize: Long, design: Design = Design.BySize): Layout = design match {
    // What is not advised otherwise stays as it was.
    case Design.BySize | Design.ByAdvice => bySize(bytes, objectSize)
    case Design.ByDay => partitioned(bytes, objectSize, Granularity.Day)
    case Design.ByRange => gridded(bytes, objectSize)
  }

  /** The finest granularity at which an average partition is worth an object; none when not even a year does. */
  private def bySize(bytes: Long, objectSize: Long): Layout =
    Granularity.finestFirst
      .find(granularity => perPartition(bytes, granularity) >= objectSize * SmallestPart)
      .fold[Layout](Ranged(bytes, files(bytes.toDouble, objectSize)))(partitioned(bytes, objectSize, _))

  private def partitioned(bytes: Long, objectSize: Long, granularity: Granularity): Layout = Partitioned(
    bytes,
    granularity,
    filesPerPartition = files(perPartition(bytes, granularity), objectSize),
    filesWithoutDate = files(bytes * WithoutDate, objectSize)
  )

  /** Months first: most queries ask for one to twelve of them. What is left to cut is cut by item. */
  private def gridded(bytes: Long, objectSize: Long): Layout = {
    val objects = files(bytes.toDouble, objectSize)
    val dateRanges = math.min(objects, 12 * FactTable.yearsOfSales)
    Gridded(
      bytes,
      dateRanges,
      itemRanges = math.max(1, math.round(objects.toDouble / dateRanges).toInt),
      filesWithoutDate = files(bytes * WithoutDate, objectSize)
    )
  }

  private def perPartition(bytes: Long, granularity: Granularity): Double =
    bytes.toDouble / FactTable.yearsOfSales / granularity.partitionsPerYear

  private def files(bytes: Double, objectSize: Long): Int = math.max(1, math.round(bytes / objectSize).toInt)
}
