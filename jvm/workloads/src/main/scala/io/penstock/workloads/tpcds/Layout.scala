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

  /** The finest granularity at which an average partition is worth an object; none when not even a year does. */
  def fact(bytes: Long, objectSize: Long): Layout = {
    val perYear = bytes.toDouble / FactTable.yearsOfSales
    Granularity.finestFirst
      .find(granularity => perYear / granularity.partitionsPerYear >= objectSize * SmallestPart)
      .fold[Layout](Ranged(bytes, files(bytes.toDouble, objectSize))) { granularity =>
        Partitioned(
          bytes,
          granularity,
          filesPerPartition = files(perYear / granularity.partitionsPerYear, objectSize),
          filesWithoutDate = files(bytes * WithoutDate, objectSize)
        )
      }
  }

  private def files(bytes: Double, objectSize: Long): Int = math.max(1, math.round(bytes / objectSize).toInt)
}
