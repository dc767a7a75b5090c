package io.penstock.skipping.layout

/** Where a table's rows are written again, and how that comes in place of what was there. */
sealed trait RewriteTarget

object RewriteTarget {

  /** A new table of the catalog; the old one stays. */
  final case class Beside(table: Seq[String]) extends RewriteTarget

  /** The table's own directory: the commit protocol replaces all files at once. */
  case object InPlace extends RewriteTarget

  /** A new directory; the catalog's name then moves from the old one to it. */
  case object Renamed extends RewriteTarget

  /**
   * Pure. Left: why it cannot be done, and what can.
   *
   * @param cataloged
   *   whether the table is in the catalog
   * @param partitionedAlike
   *   whether the partition columns stay what they are: the catalog cannot change those of a table
   * @param replacesAtOnce
   *   whether a job that replaces the files it reads leaves them in place until it has succeeded
   */
  def choose(
      into: Option[Seq[String]],
      cataloged: Boolean,
      partitionedAlike: Boolean,
      replacesAtOnce: Boolean
  ): Either[String, RewriteTarget] = into match {
    case Some(table) => Right(Beside(table))
    case None if replacesAtOnce && (partitionedAlike || !cataloged) => Right(InPlace)
    case None if cataloged => Right(Renamed)
    case None =>
      Left(
        "it is in no catalog, and on this file system a table cannot be replaced by what is read from it: " +
          "write it INTO a table of the catalog"
      )
  }
}
