package io.penstock.workloads.tpcds

import java.util.Locale
import java.util.concurrent.Executors

import scala.collection.immutable.ListMap
import scala.concurrent.duration.Duration
import scala.concurrent.{Await, ExecutionContext, Future}

import org.apache.spark.sql.SparkSession

import io.penstock.application.{Application, Arguments, UsageError}
import io.penstock.workloads.Manifest

/**
 * Generates TPC-DS, lays it out, registers the tables as external Parquet tables and collects their statistics. With
 * `--from`, the files of a data set that was loaded with the same options are copied instead of generated. For the
 * layout `advised` they are those of one laid out by size, whose tables are in `--from-database`: those for which its
 * history knows a better layout are written in it.
 *
 * Data at `--location` and tables of the same names in `--database` are replaced. An interrupted load leaves no
 * `_manifest.json`; running it again starts over.
 */
object LoadTables extends Application {

  private val usage =
    "LoadTables --scale S --location URI --database NAME [--object-size 32m] [--layout by-size|by-day|by-range|advised] " +
      "[--tables a,b] [--parallelism N] [--from URI [--from-database NAME]]"
  private val known = Set("scale", "location", "database", "object-size", "layout", "tables", "parallelism") ++
    Set("from", "from-database")

  override def run(arguments: Seq[String]): Int = {
    val options = Arguments.parse(arguments, known, usage)
    val scale = options.required("scale", "a positive number")(_.toDoubleOption.filter(_ > 0))
    val location = options.required("location").stripSuffix("/")
    val database = options.required("database")
    val objectSize = options.size("object-size", "32m")
    val design = options
      .read("layout", s"one of ${Design.all.map(_.name).mkString(", ")}")(name => Design.all.find(_.name == name))
      .getOrElse(Design.BySize)
    val tables = options.list("tables").fold(TpcdsTable.all)(_.map(table))
    val from = options.optional("from").map(_.stripSuffix("/"))
    val source = options.optional("from-database")
    if (source.isDefined != (design == Design.ByAdvice) || source.isDefined && from.isEmpty)
      throw new UsageError(s"The layout ${Design.ByAdvice.name}, --from-database and --from go together.")
    val spark = SparkSession.builder().appName(s"TPC-DS load, scale $scale").getOrCreate()
    val parallelism = options.int("parallelism", 2 * spark.sparkContext.defaultParallelism, atLeast = 1)

    val plans = tables.map(LoadPlan.of(_, scale, objectSize, parallelism, design))
    val manifest = new Manifest(location, spark.sparkContext.hadoopConfiguration)
    manifest.withdraw()
    // Tables that are written as advised are where their database is.
    val place = source.fold("")(_ => TableLoader.at(location))
    spark.sql(s"CREATE DATABASE IF NOT EXISTS `$database` $place")
    val advised = source.map(new AdvisedTables(spark, _, database, objectSize))
    val loaded = sideBySide(plans)(new TableLoader(spark, scale, location, database, from, advised).load)
    if (advised.isDefined && loaded.forall(_.advised.isEmpty))
      throw new UsageError(
        s"No layout is advised for any table of ${source.get}: too little was asked of them yet. Run the queries on it first."
      )
    manifest.write(LoadReport.manifest(scale, objectSize, design, versions(spark), loaded))
    println(LoadReport.table(loaded))
    spark.stop()
    0
  }

  /** Tables share the cluster: while one is registered or its last tasks run, others keep the cores busy. */
  private def sideBySide(plans: Seq[TablePlan])(load: TablePlan => LoadedTable): Seq[LoadedTable] = {
    val pool = Executors.newFixedThreadPool(3)
    implicit val context: ExecutionContext = ExecutionContext.fromExecutorService(pool)
    try {
      // The largest first: a long table started last would run alone.
      val running = plans.sortBy(-_.layout.bytes).map(plan => plan -> Future(load(plan))).toMap
      plans.map(plan => Await.result(running(plan), Duration.Inf))
    } finally pool.shutdownNow()
  }

  private def versions(spark: SparkSession): Map[String, String] = Map(
    "spark" -> spark.version,
    "tpcds" -> Option(classOf[io.trino.tpcds.Session].getPackage.getImplementationVersion).getOrElse("unknown")
  )

  private def table(name: String): TpcdsTable = TpcdsTable
    .named(name)
    .getOrElse(
      throw new UsageError(s"TPC-DS has no table '$name'. Tables: ${TpcdsTable.all.map(_.name).mkString(", ")}.")
    )
}

/** The plan of one table, made before any of it is generated. */
case class TablePlan(table: TpcdsTable, fact: Option[FactTable], layout: Layout, chunks: Int) {

  def partitionColumn: Option[String] = (fact, layout) match {
    case (Some(fact), Partitioned(_, granularity, _, _)) => Some(fact.partitionColumn(granularity))
    case _ => None
  }

  /** The choice in words, for the people who will wonder. */
  def description: String = layout match {
    case Partitioned(_, granularity, files, _) =>
      s"by ${granularity.name} (${partitionColumn.get}), $files ${if (files == 1) "object" else "item ranges"} each"
    case Ranged(_, 1) => "one object: too small to partition by date"
    case Ranged(_, files) => s"$files item ranges: too small to partition by date"
    case Gridded(_, dates, items, _) =>
      s"$dates date ranges of $items ${if (items == 1) "object" else "item ranges"} each"
    case Plain(_, 1) => "plain, one object"
    case Plain(_, files) => s"plain, $files objects"
  }
}

object LoadPlan {

  /** Fewer orders than this are generated faster by one task than two tasks are started. */
  private val SmallestChunk = 10000L

  /** Small objects stand in for the facts of a large scale, whose dimensions fit in an object or few all the same. */
  private val SmallestDimensionObject = 32L << 20

  /** `parallelism` is the number of tasks a large table is generated by. */
  def of(table: TpcdsTable, scale: Double, objectSize: Long, parallelism: Int, design: Design): TablePlan = {
    val scaling = TpcdsTable.session(scale).getScaling
    val bytes = ExpectedSize.of(table, scaling)
    val facts = if (design == Design.ByRange) FactTable.all :+ FactTable.inventory else FactTable.all
    val fact = facts.find(_.name == table.name)
    val layout =
      if (fact.isDefined) Layout.fact(bytes, objectSize, design)
      else if (table.name == FactTable.inventory.name) Layout.plain(bytes, objectSize)
      else Layout.plain(bytes, math.max(objectSize, SmallestDimensionObject))
    val chunks = layout match {
      // Written as generated: a chunk is an object.
      case Plain(_, files) => files
      case _ => math.max(1L, math.min(parallelism.toLong, table.generatedRows(scaling) / SmallestChunk)).toInt
    }
    TablePlan(table, fact, layout, chunks)
  }
}

/** The plan and the result of each table. */
object LoadReport {

  /** For the programs that use the data. */
  def manifest(
      scale: Double,
      objectSize: Long,
      design: Design,
      versions: Map[String, String],
      tables: Seq[LoadedTable]
  ): Map[String, Any] = ListMap(
    "scale" -> scale,
    "object_size" -> objectSize,
    "layout" -> design.name,
    "versions" -> versions,
    "tables" -> tables.map(describe)
  )

  private def describe(loaded: LoadedTable): Map[String, Any] = ListMap(
    "table" -> loaded.plan.table.name,
    "rows" -> loaded.rows,
    "bytes" -> loaded.bytes,
    "files" -> loaded.files,
    "partitions" -> loaded.partitions,
    "partition_column" -> loaded.partitionColumn,
    "layout" -> loaded.layout
  )

  /** For people. */
  def table(loaded: Seq[LoadedTable]): String = {
    val heading = Seq("table", "rows", "MB", "objects", "layout")
    val rows = loaded.map { one =>
      Seq(
        one.plan.table.name,
        "%,d".formatLocal(Locale.ROOT, one.rows),
        "%.1f".formatLocal(Locale.ROOT, one.bytes / 1e6),
        one.files.toString,
        one.layout
      )
    }
    val widths = (heading +: rows).transpose.map(_.map(_.length).max)
    (heading +: rows).map(line(_, widths)).mkString("\n")
  }

  /** Names to the left, numbers to the right. */
  private def line(cells: Seq[String], widths: Seq[Int]): String =
    cells
      .zip(widths)
      .zipWithIndex
      .map {
        case ((cell, width), column) if column >= 1 && column <= 3 => cell.reverse.padTo(width, ' ').reverse
        case ((cell, width), _) => cell.padTo(width, ' ')
      }
      .mkString("  ")
      .stripTrailing
}

/**
 * Writes new tables of `database` from their namesakes in `from`, in the layouts advised by what was asked of these.
 * For a session with the skipping extension, and a database whose tables are below its own location.
 *
 * @param objectSize
 *   that objects are to have, in bytes
 */
class AdvisedTables(spark: SparkSession, from: String, database: String, objectSize: Long) {

  spark.conf.set("spark.penstock.skipping.layout.object.size", s"${objectSize}b")

  /**
   * The layout of the table, in the words of `REWRITE TABLE`; it has statistics and an index then. None where it should
   * stay as it is, and nothing is written.
   */
  def write(table: String): Option[String] = {
    val (source, target) = (s"`$from`.`$table`", s"`$database`.`$table`")
    for (layout <- advice(source)) yield {
      spark.sql(s"REWRITE TABLE $source INTO $target $layout")
      layout.replace("`", "").toLowerCase(Locale.ROOT)
    }
  }

  private def advice(table: String): Option[String] =
    Option(spark.sql(s"SHOW SKIPPING ADVICE ON $table").where("item = 'layout'").head().getAs[String]("value"))
}
