package io.penstock.skipping.filter

import io.penstock.skipping.filter.FileFilter._

/**
 * Which files may hold a row for which a condition is true, and which one for which it is false. SQL's logic has a
 * third value: where the condition is null it is neither, so that one cannot be told from the other.
 */
private[filter] final case class Truth(whereTrue: FileFilter, whereFalse: FileFilter) {

  def unary_! : Truth = Truth(whereFalse, whereTrue)

  def and(other: Truth): Truth =
    Truth(FileFilter.and(Seq(whereTrue, other.whereTrue)), FileFilter.or(Seq(whereFalse, other.whereFalse)))

  def or(other: Truth): Truth = !(!this and !other)
}

private[filter] object Truth {
  val Unknown: Truth = Truth(Anything, Anything)
  val Always: Truth = Truth(Anything, Nothing)
  val Never: Truth = !Always
  val Null: Truth = Truth(Nothing, Nothing)

  def isNull(column: String): Truth = Truth(IsNull(column), IsNotNull(column))

  /** Null where the column is. */
  def among(column: String, keys: Keys): Truth =
    Truth(FileFilter.among(column, keys), FileFilter.among(column, keys.complement))
}
