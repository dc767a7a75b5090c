package io.penstock.skipping.index

/** What may be recorded of a column in each file. */
sealed abstract class Kind(val name: String)

object Kind {

  /** The smallest and the greatest value and the number of nulls: from the footers, at no cost. */
  case object MinMax extends Kind("minmax")

  /** The distinct values, where they are few: from dictionaries where the files have them, else from the data. */
  case object Values extends Kind("values")

  /** A bloom filter of the values, where they are not too many: from the data. */
  case object Bloom extends Kind("bloom")

  val all: Seq[Kind] = Seq(MinMax, Values, Bloom)

  /** Throws an `IllegalArgumentException` where there is no such kind. */
  def of(name: String): Kind = all
    .find(_.name.equalsIgnoreCase(name))
    .getOrElse(
      throw new IllegalArgumentException(
        s"There is no kind of skipping index called $name: say one of ${all.map(_.name).mkString(", ")}"
      )
    )
}

/**
 * A column of an index, and what is recorded of it.
 *
 * @param why
 *   a sentence for people
 * @param asked
 *   the share of files, 0 to 1, that may hold what queries had asked of the column, where it was chosen for that
 */
case class PlannedColumn(column: IndexedColumn, kinds: Set[Kind], why: String, asked: Option[Double] = None)
