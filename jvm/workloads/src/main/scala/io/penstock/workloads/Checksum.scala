package io.penstock.workloads

import org.apache.spark.sql.Column
import org.apache.spark.sql.functions.{sum, xxhash64}

/**
 * What tells two tables apart without regard to the order of their rows: the sum of their rows' hashes. A sum, because
 * with exclusive or a row that is there twice too often would leave no trace.
 */
object Checksum {

  /** An aggregate of whole numbers, exact as a decimal; null where there are no rows. */
  def of(columns: Column*): Column = sum(xxhash64(columns: _*).cast("decimal(20,0)"))
}
