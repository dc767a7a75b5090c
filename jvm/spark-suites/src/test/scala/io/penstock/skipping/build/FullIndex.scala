package io.penstock.skipping.build

import org.apache.spark.sql.SparkSession

import io.penstock.skipping.index.Kind

/** An index of every column that can have one, with everything that can be recorded of it. */
object FullIndex {

  /** The number of files that the index knows; 0 where the table has no column for it. */
  def build(spark: SparkSession, path: String): Long = {
    val table = IndexedTable.at(spark, path)
    val columns = ColumnChoice.possible(table).map(_.name)
    if (columns.isEmpty) 0
    else IndexMaintenance.build(spark, table, Some(columns), Some(Kind.all.toSet)).read
  }
}
