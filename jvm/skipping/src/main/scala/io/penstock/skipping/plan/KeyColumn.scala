package io.penstock.skipping.plan

import org.apache.spark.sql.types.DataType

import io.penstock.skipping.filter.Encoding

/**
 * The indexed column that keys are compared with.
 *
 * @param values
 *   the keys' type; another one than the column's where the column is widened before it is compared
 */
case class KeyColumn(name: String, dataType: DataType, values: DataType) {

  /** None where such keys cannot be compared with what the index holds. */
  def encoding: Option[Encoding] = Encoding.of(values, dataType)
}
