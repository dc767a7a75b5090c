package org.apache.spark.sql.penstock

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.classic.ExpressionUtils

/** Access to members that Spark keeps private to its packages. */
object Columns {

  /** The DataFrame column of an expression over its plan's attributes. */
  def of(expression: Expression): Column = ExpressionUtils.column(expression)
}
