package io.penstock.skipping.filter

/**
 * What is asked of a file: may it hold a row for which this is true? Null is not true, as in a WHERE clause.
 *
 * Comparisons, BETWEEN, IN and prefixes all are [[FileFilter.Among]]: intervals of values. There is no negation: it is
 * carried down to the leaves when a filter is made, since "may not hold" is not the opposite of "may hold".
 */
sealed trait FileFilter

object FileFilter {

  /** Nothing can be said: every file may match. */
  case object Anything extends FileFilter

  /** No row matches, whatever it holds. */
  case object Nothing extends FileFilter

  /** The column has a value among these. */
  final case class Among(column: String, keys: Keys) extends FileFilter

  /** The column has a value, and it is none of these. */
  final case class Outside(column: String, keys: Keys) extends FileFilter

  final case class IsNull(column: String) extends FileFilter

  final case class IsNotNull(column: String) extends FileFilter

  final case class And(parts: Seq[FileFilter]) extends FileFilter

  final case class Or(parts: Seq[FileFilter]) extends FileFilter
}
