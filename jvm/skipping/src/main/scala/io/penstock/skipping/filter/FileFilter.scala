package io.penstock.skipping.filter

/**
 * What is asked of a file: may it hold a row for which this is true? Null is not true, as in a WHERE clause.
 *
 * Comparisons, BETWEEN, IN, prefixes and their opposites all are [[FileFilter.Among]]: intervals of values. There is no
 * negation: it is carried down to the leaves when a filter is made, since "may not hold" is not the opposite of "may
 * hold".
 */
sealed trait FileFilter

object FileFilter {

  /** Nothing can be said: every file may match. */
  case object Anything extends FileFilter

  /** No row matches, whatever it holds. */
  case object Nothing extends FileFilter

  /** The column has a value (so it is not null), and it is among these. */
  final case class Among(column: String, keys: Keys) extends FileFilter

  final case class IsNull(column: String) extends FileFilter

  final case class IsNotNull(column: String) extends FileFilter

  /** To be made by [[and]]. */
  final case class And(parts: Seq[FileFilter]) extends FileFilter

  /** To be made by [[or]]. */
  final case class Or(parts: Seq[FileFilter]) extends FileFilter

  def among(column: String, keys: Keys): FileFilter =
    if (keys.isEmpty) Nothing
    else if (keys.isEverything) IsNotNull(column)
    else Among(column, keys)

  /**
   * The keys asked of one column are intersected. That says more than asking for each of them: a file that holds 1 and
   * 9 may hold something above 3 and something below 7, but nothing between them.
   */
  def and(parts: Seq[FileFilter]): FileFilter = {
    val flat = parts.flatMap {
      case And(inner) => inner
      case Anything => Seq.empty
      case part => Seq(part)
    }
    val merged = merge(flat)(_ intersect _)
    if (merged.contains(Nothing)) Nothing
    else if (merged.isEmpty) Anything
    else if (merged.length == 1) merged.head
    else And(merged)
  }

  def or(parts: Seq[FileFilter]): FileFilter = {
    val flat = parts.flatMap {
      case Or(inner) => inner
      case Nothing => Seq.empty
      case part => Seq(part)
    }
    val merged = merge(flat)(_ union _)
    if (merged.contains(Anything)) Anything
    else if (merged.isEmpty) Nothing
    else if (merged.length == 1) merged.head
    else Or(merged)
  }

  /** One part for each column's keys, last, since these cost the most to ask. */
  private def merge(parts: Seq[FileFilter])(combine: (Keys, Keys) => Keys): Seq[FileFilter] = {
    val keys = parts.collect { case Among(column, keys) => column -> keys }.groupMapReduce(_._1)(_._2)(combine)
    val others = parts.filter { case _: Among => false; case _ => true }
    others.distinct ++ keys.toSeq.sortBy(_._1).map { case (column, keys) => among(column, keys) }
  }
}
