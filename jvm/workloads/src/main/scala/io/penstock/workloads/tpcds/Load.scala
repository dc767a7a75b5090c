package io.penstock.workloads.tpcds

import java.util.concurrent.Executors

import scala.concurrent.duration.Duration
import scala.concurrent.{Await, ExecutionContext, Future}

import org.apache.spark.sql.SparkSession

import io.penstock.workloads.{Application, Arguments, Manifest, UsageError}

/**
 * Generates TPC-DS, lays it out, registers the tables as external Parquet tables and collects their statistics. With
 * `--from`, the files of a data set that was loaded with the same options are copied instead of generated. For the
 * layout `advised` they are those of one laid out by size, whose tables are in `--from-database`: those for which its
 * history knows a better layout are written in it.
 *
 * What is at `--location` and the tables of the same names in `--database` are replaced. A load that was cut short
 * leaves no `_manifest.json`; running it again starts over.
 */
object Load extends Application {

  private val usage =
    "Load --scale S --location URI --database NAME [--object-size 32m] [--layout by-size|by-day|by-range|advised] " +
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
