package io.penstock.workloads.tpcds

import java.util.Locale

import org.apache.spark.sql.SparkSession

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
