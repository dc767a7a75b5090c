package io.penstock.workloads.tpcds

import scala.collection.immutable.ListMap
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession

import io.penstock.application.{Application, Arguments, UsageError}
import io.penstock.workloads.Manifest

/**
 * Makes Iceberg tables of the files of a data set that was loaded by size, and collects their statistics. Only metadata
 * is written: a comparison of both formats reads the same files.
 *
 * Tables of the same names in `--database`, and their metadata at `--location`, are replaced. An interrupted run leaves
 * no `_manifest.json`; running it again starts over.
 */
object IcebergTables extends Application {

  private val usage = "IcebergTables --location URI --database NAME --from URI --from-database NAME"
  private val known = Set("location", "database", "from", "from-database")

  /** The name of this layout beside those of `Design`. */
  val Layout = "iceberg"

  override def run(arguments: Seq[String]): Int = {
    val options = Arguments.parse(arguments, known, usage)
    val location = options.required("location").stripSuffix("/")
    val database = options.required("database")
    val source = options.required("from-database")
    val spark = SparkSession.builder().appName(s"Iceberg tables of $source").getOrCreate()
    if (!spark.catalog.databaseExists(source))
      throw new UsageError(s"There is no database '$source' in the catalog.")
    val configuration = spark.sparkContext.hadoopConfiguration
    val manifest = new Manifest(location, configuration)
    manifest.withdraw()
    val loaded = new Manifest(options.required("from").stripSuffix("/"), configuration).read[ObjectNode]()
    spark.sql(s"CREATE DATABASE IF NOT EXISTS `$database`")
    for (table <- loaded.get("tables").asScala) {
      val name = table.get("table").asText
      make(spark, s"`$source`.`$name`", s"`$database`.`$name`", s"$location/$name")
    }
    loaded.put("layout", Layout)
    manifest.write(ListMap.from(loaded.properties.asScala.map(entry => entry.getKey -> entry.getValue)))
    spark.stop()
    0
  }

  private def make(spark: SparkSession, source: String, target: String, location: String): Unit = {
    spark.sparkContext.setJobDescription(s"$target: metadata")
    spark.sql(s"DROP TABLE IF EXISTS $target")
    val place = new Path(location)
    val _ = place.getFileSystem(spark.sparkContext.hadoopConfiguration).delete(place, true)
    spark.sql(s"CALL system.snapshot(source_table => '$source', table => '$target', location => '$location')")
    spark.sparkContext.setJobDescription(s"$target: collecting statistics")
    val _ = spark.sql(s"ANALYZE TABLE $target COMPUTE STATISTICS FOR ALL COLUMNS")
  }
}
