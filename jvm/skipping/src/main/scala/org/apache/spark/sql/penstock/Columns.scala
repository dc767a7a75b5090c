package org.apache.spark.sql.penstock

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.classic.ExpressionUtils

/** What Spark keeps to its own packages. */
object Columns {

  /** A column of a DataFrame for an expression over its plan's attributes. */
  def of(expression: Expression): Column = ExpressionUtils.column(expression)
}
