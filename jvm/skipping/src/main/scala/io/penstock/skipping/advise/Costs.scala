package io.penstock.skipping.advise

import java.util.Locale

import scala.collection.mutable

import io.penstock.skipping.filter.Keys
import io.penstock.skipping.history.{Condition, ScanNote}
import io.penstock.skipping.layout.Ranges

/**
 * What the noted scans would read of a table in another layout, and which of its columns they ask for.
 *
 * A scan is expected to read the objects that hold a range its keys are in. The columns of a layout are taken as
 * independent of each other; what the table's present order happens to save by other columns is taken as lost.
 */
private[advise] class Costs(notes: Seq[ScanNote], facts: TableFacts) {

  import Costs._

  private val ranges = mutable.Map.empty[Level, Ranges]
  private val reaches = mutable.Map.empty[(Level, Keys), Double]

  /** In bytes. */
  def of(candidate: Candidate): Double =
    notes.map(note => note.scans * facts.bytes * candidate.levels.map(reach(_, note)).product).sum

  /** Which scans a column of the layout serves. */
  def use(column: String): String = {
    val asking = conditions(column)
    val kinds = Seq("joins" -> true, "filters" -> false).collect {
      case (word, byJoin) if asking.exists(_._2.byJoin == byJoin) => word
    }
    s"${asked(column)} by ${kinds.mkString(" and ")}, on average for ${percent(meanReach(column))} of the table's rows"
  }

  /** Why other columns that are asked for are not in the layout. */
  def unused(chosen: Candidate): Seq[String] =
    for {
      column <- notes.flatMap(_.conditions).map(_.column).distinct.sorted if !chosen.layout.columns.contains(column)
    } yield
      if (!facts.columns.contains(column)) s"${asked(column)}, but files cannot be skipped by values of its type"
      else if (!conditions(column).exists(_._2.keys.isDefined)) s"${asked(column)}, with keys that were not seen"
      else if (meanReach(column) > Useless)
        s"${asked(column)}, with keys all over its values: no order by it would help"
      else s"${asked(column)}; the columns chosen save more"

  private def asked(column: String): String =
    s"$column: asked for in ${scans(conditions(column).map(_._1).distinct.map(_.scans).sum)}"

  /** The share of the table that a scan reads as far as this level decides it. */
  private def reach(level: Level, note: ScanNote): Double =
    note.conditions
      .collect { case Condition(level.column, _, Some(keys)) =>
        reach(level, keys)
      }
      .minOption
      .getOrElse(1.0)

  private def reach(level: Level, keys: Keys): Double =
    reaches.getOrElseUpdate((level, keys), facts.columns(level.column).share(rangesOf(level), keys))

  private def rangesOf(level: Level): Ranges = ranges.getOrElseUpdate(
    level, {
      val sample = facts.columns(level.column)
      level.ranges.fold(sample.singles)(sample.ranges)
    }
  )

  private def conditions(column: String): Seq[(ScanNote, Condition)] =
    for (note <- notes; condition <- note.conditions if condition.column == column) yield note -> condition

  /** The share of rows that are in the finest ranges with a key, over all scans whose keys are known. */
  private def meanReach(column: String): Double = {
    val asking =
      for ((note, condition) <- conditions(column); keys <- condition.keys)
        yield note.scans -> reach(Level(column, None), keys)
    asking.map { case (scans, share) => scans * share }.sum / math.max(asking.map(_._1).sum, 1)
  }
}

private[advise] object Costs {

  /** A column is called useless where its keys reach more of the table than this, however finely it is cut. */
  private val Useless = 0.9

  def scans(count: Long): String = if (count == 1) "1 scan" else s"$count scans"

  def percent(share: Double): String =
    if (share > 0 && share < 0.01) "less than 1 %" else "%.0f %%".formatLocal(Locale.ROOT, share * 100)
}
