package io.penstock.workloads.tpcds

import scala.collection.immutable.ListMap
import scala.util.Using

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier

import io.penstock.application.{Application, Arguments, JsonLines, UsageError}
import io.penstock.workloads.DataFiles

/**
 * Builds the skipping index of each table of a database anew, then refreshes it with nothing changed, and writes a line
 * of JSON per table to `--output`: data files, and the milliseconds of both. For a session with the extension.
 */
object Index extends Application {

  private val usage = "Index --database D --output URI [--tables a,b]"
  private val known = Set("database", "output", "tables")

  override def run(arguments: Seq[String]): Int = {
    val options = Arguments.parse(arguments, known, usage)
    val database = options.required("database")
    val output = options.required("output")
    val spark = SparkSession.builder().appName(s"Skipping index of $database").getOrCreate()
    if (!spark.catalog.databaseExists(database))
      throw new UsageError(s"There is no database '$database' in the catalog.")
    val tables = options.list("tables").getOrElse(spark.sessionState.catalog.listTables(database).map(_.table)).sorted
    Using.resource(JsonLines.create(output, spark.sparkContext.hadoopConfiguration)) { lines =>
      for ((table, number) <- tables.zipWithIndex) {
        spark.sparkContext.setJobDescription(s"$table (${number + 1} of ${tables.size})")
        lines.write(index(spark, database, table))
      }
    }
    spark.stop()
    0
  }

  private def index(spark: SparkSession, database: String, table: String): Map[String, Any] = {
    val name = s"`$database`.`$table`"
    val location = spark.sessionState.catalog.getTableMetadata(TableIdentifier(table, Some(database))).location
    val files = DataFiles.under(location.toString, spark.sparkContext.hadoopConfiguration).size
    val built = elapsedMs(spark.sql(s"BUILD SKIPPING INDEX ON $name"))
    val refreshed = elapsedMs(spark.sql(s"REFRESH SKIPPING INDEX ON $name"))
    println(f"$table%-24s $files%6d files  built in ${built / 1000}%7.2f s  refreshed in ${refreshed / 1000}%6.2f s")
    ListMap("table" -> table, "files" -> files, "build_ms" -> built, "refresh_ms" -> refreshed)
  }

  private def elapsedMs(work: => Any): Double = {
    val started = System.nanoTime()
    val _ = work
    (System.nanoTime() - started) / 1e6
  }
}
