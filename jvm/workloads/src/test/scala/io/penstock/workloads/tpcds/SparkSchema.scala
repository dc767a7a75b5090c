package io.penstock.workloads.tpcds

import org.apache.spark.sql.TPCDSSchema

/** Spark's TPC-DS schema, from the jar of Spark's own tests. */
object SparkSchema {

  private object Tables extends TPCDSSchema {
    def of(table: String): String = tableColumns(table)
  }

  private val Declaration = """`?(\w+)`?\s+(\w+(?:\(\d+(?:,\s*\d+)?\))?)""".r

  /** Names and declared types, in order. */
  def columns(table: String): Seq[(String, String)] =
    Declaration.findAllMatchIn(Tables.of(table)).map(found => found.group(1) -> found.group(2)).toSeq
}
