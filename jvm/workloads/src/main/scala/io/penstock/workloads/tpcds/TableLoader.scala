package io.penstock.workloads.tpcds

import java.io.IOException

import io.trino.tpcds.{Scaling, Table}
import org.apache.hadoop.fs.{FileUtil, Path}
import org.apache.spark.sql.{SaveMode, SparkSession}

import io.penstock.workloads.DataFiles

/**
 * The result of loading a table. `bytes` and `files` are those of its data files alone.
 *
 * @param advised
 *   its layout where it follows advice instead of the plan
 */
case class LoadedTable(
    plan: TablePlan,
    advised: Option[String],
    rows: Long,
    bytes: Long,
    files: Int,
    partitions: Int
) {
  def layout: String = advised.fold(plan.description)(layout => s"as advised: $layout")

  /** The planned column; for a layout by advice, `layout` names it. */
  def partitionColumn: Option[String] = if (advised.isEmpty) plan.partitionColumn else None
}

/**
 * Generates, writes, registers and analyses tables of one scale in one database.
 *
 * @param from
 *   where the tables' files are copied from instead of being generated
 * @param advised
 *   lays out those tables for which it knows a better layout than the plan
 */
class TableLoader(
    spark: SparkSession,
    scale: Double,
    location: String,
    database: String,
    from: Option[String] = None,
    advised: Option[AdvisedTables] = None
) {

  private val items = TpcdsTable.session(scale).getScaling.getRowCount(Table.ITEM)

  /** Load the table; data at its location is replaced. */
  def load(plan: TablePlan): LoadedTable = {
    val name = plan.table.name
    remove(plan)
    val layout = advised.flatMap { tables =>
      describe(s"$name: laying out as advised")
      tables.write(name)
    }
    if (layout.isEmpty) loadAsPlanned(plan)
    measure(plan, layout)
  }

  /** Before anything is written: a table that was written as advised takes its files with it when it is dropped. */
  private def remove(plan: TablePlan): Unit = {
    spark.sql(s"DROP TABLE IF EXISTS ${qualified(plan.table.name)}")
    val place = new Path(directory(plan))
    val _ = place.getFileSystem(spark.sparkContext.hadoopConfiguration).delete(place, true)
  }

  private def loadAsPlanned(plan: TablePlan): Unit = {
    val name = plan.table.name
    from match {
      case Some(place) =>
        describe(s"$name: copying")
        copy(s"$place/$name", directory(plan))
      case None =>
        describe(s"$name: generating in ${plan.chunks} chunks, ${plan.description}")
        write(plan)
    }
    describe(s"$name: registering")
    register(plan)
    describe(s"$name: collecting statistics")
    spark.sql(s"ANALYZE TABLE ${qualified(name)} COMPUTE STATISTICS FOR ALL COLUMNS")
  }

  private def copy(source: String, target: String): Unit = {
    val configuration = spark.sparkContext.hadoopConfiguration
    val (in, out) = (new Path(source), new Path(target))
    val (store, place) = (in.getFileSystem(configuration), out.getFileSystem(configuration))
    if (!FileUtil.copy(store, in, place, out, false, configuration)) throw new IOException(s"$in was not copied whole")
  }

  private def write(plan: TablePlan): Unit = {
    val generated = spark.read
      .format(classOf[TpcdsSource].getName)
      .option("table", plan.table.name)
      .option("scale", scale.toString)
      .option("chunks", plan.chunks.toString)
      .load()
    val placed = plan.fact.fold(generated)(new FactPlacement(_, items).place(generated, plan.layout))
    placed.write
      .mode(SaveMode.Overwrite)
      .option("compression", "zstd")
      .partitionBy(plan.partitionColumn.toSeq: _*)
      .parquet(directory(plan))
  }

  private def register(plan: TablePlan): Unit = {
    val name = qualified(plan.table.name)
    val schema = plan.table.schema(TpcdsTable.session(scale).getScaling)
    val derived = plan.partitionColumn.filterNot(schema.fieldNames.contains).map(column => s"`$column` INT")
    val columns = (schema.fields.map(field => s"`${field.name}` ${field.dataType.sql}") ++ derived).mkString(", ")
    val partitioning = plan.partitionColumn.fold("")(column => s"PARTITIONED BY (`$column`)")
    spark.sql(s"CREATE TABLE $name ($columns) USING PARQUET $partitioning ${TableLoader.at(directory(plan))}")
    if (plan.partitionColumn.isDefined) spark.sql(s"ALTER TABLE $name RECOVER PARTITIONS")
  }

  private def measure(plan: TablePlan, advised: Option[String]): LoadedTable = {
    val name = plan.table.name
    val identifier = spark.sessionState.sqlParser.parseTableIdentifier(qualified(name))
    val rows = spark.sessionState.catalog.getTableMetadata(identifier).stats.flatMap(_.rowCount).map(_.toLong)
    val files = DataFiles.under(directory(plan), spark.sparkContext.hadoopConfiguration)
    LoadedTable(
      plan,
      advised,
      rows.getOrElse(0L),
      files.map(_.getLen).sum,
      files.size,
      files.map(_.getPath.getParent).distinct.size
    )
  }

  private def directory(plan: TablePlan): String = s"$location/${plan.table.name}"

  private def qualified(table: String): String = s"`$database`.`$table`"

  private def describe(step: String): Unit = spark.sparkContext.setJobDescription(step)
}

object TableLoader {

  /** The location clause of a table or database in SQL. */
  def at(location: String): String = s"LOCATION '${location.replace("'", "\\'")}'"
}

/** The span of time that one partition of a fact table covers. `columnSuffix` names the partition column. */
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

/** The placement of a table's rows. `bytes` is its expected size as Parquet. */
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

/** The size of a table, estimated before it is generated. */
object ExpectedSize {

  /** Bytes a row takes as zstd Parquet, measured at scale 1 in the layout that `FactPlacement` gives. */
  private val bytesPerRow: Map[String, Double] = Map(
    "store_sales" -> 34.5,
    "store_returns" -> 41,
    "catalog_sales" -> 56.5,
    "catalog_returns" -> 55,
    "web_sales" -> 59,
    "web_returns" -> 53,
    "inventory" -> 2.1,
    "customer" -> 38,
    "customer_demographics" -> 2.7
  )
  private val bytesPerOtherRow = 40.0

  /** Lines of an order, and the part of them that is returned: what the generator draws from. */
  private val linesPerOrder = Map("store_sales" -> 12.0, "catalog_sales" -> 9.0, "web_sales" -> 12.0)
  private val returned = 0.1

  def of(table: TpcdsTable, scaling: Scaling): Long =
    (rows(table, scaling) * bytesPerRow.getOrElse(table.name, bytesPerOtherRow)).toLong

  def rows(table: TpcdsTable, scaling: Scaling): Long = {
    val generated = table.generatedRows(scaling)
    val sales = if (table.generator.isChild) table.generator.getParent.getName else table.name
    val lines = generated * linesPerOrder.getOrElse(sales, 1.0)
    (if (table.generator.isChild) lines * returned else lines).toLong
  }
}
