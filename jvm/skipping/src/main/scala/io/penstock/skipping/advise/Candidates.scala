package io.penstock.skipping.advise

import io.penstock.skipping.layout.{Layout, RangeLevel}

/**
 * A column that rows are shared out by.
 *
 * @param ranges
 *   into how many ranges; none: by each of its values
 */
private[advise] case class Level(column: String, ranges: Option[Int])

/** A way to lay a table out that is worth comparing, the outermost level first. */
private[advise] case class Candidate(layout: Layout, levels: Seq[Level]) {

  /** Rather the simpler of two that save about the same; directories serve engines without an index too. */
  def complexity: Int = levels.size * 2 + (if (layout.partitionBy.isEmpty) 1 else 0)
}

/**
 * The layouts worth comparing: by the values of one column or by its ranges, and within these by ranges of another. A
 * third column would leave too few ranges for each.
 */
private[advise] class Candidates(facts: TableFacts, objectBytes: Long) {

  private val objects = math.round(facts.bytes.toDouble / objectBytes).toInt
  private val columns = facts.columns.keys.toSeq.sorted

  def all: Seq[Candidate] =
    if (objects < 2) Nil
    else columns.flatMap(column => byValue(column) ++ byRange(column))

  private def byValue(column: String): Seq[Candidate] = {
    val partitions = distinct(column)
    val large = facts.bytes / partitions >= objectBytes * Layout.SmallestPart
    if (!facts.partitionable(column) || !large || partitions < 2) Nil
    else {
      val alone = Candidate(Layout(Seq(column), Nil), Seq(Level(column, None)))
      // How many ranges a partition is cut into follows from its own size.
      alone +: inner(column, math.round(objects / partitions).toInt).map { level =>
        Candidate(Layout(Seq(column), Seq(RangeLevel(level.column))), alone.levels :+ level)
      }
    }
  }

  private def byRange(column: String): Seq[Candidate] =
    (Iterator.iterate(2)(_ * 2).takeWhile(_ < objects).toSeq :+ objects).flatMap { count =>
      val outer = Level(column, Some(count))
      (Seq(outer) +: inner(column, objects / count).map(Seq(outer, _))).map { levels =>
        Candidate(Layout(Nil, levels.map(level => RangeLevel(level.column, level.ranges))), levels)
      }
    }

  private def inner(outer: String, count: Int): Seq[Level] =
    if (count < 2) Nil else columns.filter(_ != outer).map(Level(_, Some(count)))

  private def distinct(column: String): Double = {
    val sample = facts.columns(column)
    math.max(1, sample.distinct(facts.rows) + (if (sample.nulls > 0) 1 else 0))
  }
}
