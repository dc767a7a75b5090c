package io.penstock.skipping.advise

import java.util.{BitSet, Locale}

import scala.collection.mutable

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.types.StructType

import io.penstock.skipping.advise.Costs.percent
import io.penstock.skipping.history.{Condition, NoteStore, ScanNote}
import io.penstock.skipping.index.{IndexCatalog, ListedFiles, TableIndex}
import io.penstock.skipping.layout.{ColumnSample, CutPoints, Layout, ObjectOf, RangeLevel, SourceTable}
import io.penstock.skipping.model.{Domain, FileFilter, RangeSet, SkippingSettings, ValueEncoding}

/**
 * Advice on a table's layout from the session's history. It reads a sample of the columns in the history's conditions.
 */
object TableAdvice {

  /**
   * The advice. Throws an `IllegalArgumentException` where the session has no history, and an `IOException` where the
   * store fails.
   */
  def of(spark: SparkSession, table: SourceTable): Advice = {
    val settings = new SkippingSettings(spark.sessionState.conf)
    val directory = settings.history.getOrElse {
      throw new IllegalArgumentException(
        s"There is no history of queries: set ${SkippingSettings.Prefix}history to the directory of their notes"
      )
    }
    val history = new NoteStore(directory, spark.sessionState.newHadoopConf())
    val notes = applicable(history.of(table.root.toString), table)
    LayoutAdvisor.advise(notes, facts(table, notes), PresentLayout.of(spark, table), settings.objectBytes)
  }

  /** Drop conditions on columns that the table no longer has, or has with another type. */
  private def applicable(notes: Seq[ScanNote], table: SourceTable): Seq[ScanNote] = {
    val domains = table.frame.schema.map(field => field.name -> Domain.of(field.dataType)).toMap
    notes.map(note =>
      note.copy(conditions = note.conditions.filter { condition =>
        domains.get(condition.column).exists(domain => condition.keys.forall(keys => domain.contains(keys.domain)))
      })
    )
  }

  private def facts(table: SourceTable, notes: Seq[ScanNote]): TableFacts = {
    val asked = notes.flatMap(_.conditions).map(_.column).distinct
    val columns = table.frame.schema.filter(field => asked.contains(field.name) && table.canBeRanged(field))
    val rows = if (columns.isEmpty) Nil else table.sample(columns.map(_.name)).map(ObjectOf.split(_, 0)._2)
    val samples = columns.indices.map(i => columns(i).name -> ColumnSample.of(rows.map(_(i)))).toMap
    val partitionable = columns.filter(table.canPartition).map(_.name).toSet
    TableFacts(table.bytes, table.rows, samples, partitionable)
  }
}

/**
 * The facts of a table beside its history.
 *
 * @param bytes
 *   the size of all its files
 * @param columns
 *   samples of the columns in the history's conditions, by name; a column without one is in no layout
 * @param partitionable
 *   the columns that directories can represent
 */
case class TableFacts(
    bytes: Long,
    rows: Long,
    columns: Map[String, ColumnSample],
    partitionable: Set[String]
)

/**
 * Advice on a table's layout.
 *
 * @param layout
 *   None where the table should stay as it is
 * @param bytesNow
 *   the bytes of files that the recorded scans would read from the table as it is: by its index or, without one, as
 *   they did
 * @param bytesThen
 *   the estimated bytes of files that they would read from a table of that layout
 * @param reasons
 *   sentences
 */
case class Advice(layout: Option[Layout], scans: Long, bytesNow: Long, bytesThen: Long, reasons: Seq[String])

/** Chooses the layout in which the recorded scans of a table would read the fewest bytes. Pure functions. */
object LayoutAdvisor {

  /** The least share of the present reads that a layout has to save to be worth a rewrite. */
  private val WorthIt = 0.1

  /**
   * Layouts whose reads differ by less than this share of the present ones count as equal, and the simplest one wins.
   */
  private val Alike = 0.02

  /** The advice for these notes on the table; `present`: its present layout, if it has an index. */
  def advise(
      notes: Seq[ScanNote],
      facts: TableFacts,
      present: Option[PresentLayout],
      objectBytes: Long
  ): Advice =
    if (notes.isEmpty) Advice(None, 0, 0, 0, Seq("no scan of this table is recorded"))
    else {
      val scans = notes.map(_.scans).sum
      val read = notes.map(_.bytes).sum
      val now = present.fold(read)(layout => notes.map(note => note.scans * layout.bytes(note.conditions)).sum)
      val indexed = present.fold("")(_ => s", as it is they would read ${Bytes.text(now)} by its index")
      val seen =
        s"recorded: ${Costs.scans(scans)}, of files of ${Bytes.text(read)}; the table has ${Bytes.text(facts.bytes)}$indexed"
      val costs = new Costs(notes, facts)
      val ranked = new Candidates(facts, objectBytes).all.map(candidate => candidate -> costs.of(candidate))
      val least = ranked.map(_._2).minOption
      least.filter(bytes => now > 0 && now - bytes >= now * WorthIt) match {
        case None => Advice(None, scans, now, now, Seq(seen, whyNot(least, facts, objectBytes)))
        case Some(bytes) =>
          val (best, expected) = ranked
            .filter { case (_, cost) => cost <= bytes + now * Alike }
            .minBy { case (candidate, cost) => (candidate.complexity, cost) }
          val saving = s"they would read ${Bytes.text(expected.toLong)}, ${percent(1 - expected / now)} less"
          val reasons = seen +: (best.layout.columns.map(costs.use) ++ costs.unused(best)) :+ saving
          Advice(Some(best.layout), scans, now, expected.toLong, reasons)
      }
    }

  private def whyNot(least: Option[Double], facts: TableFacts, objectBytes: Long): String = least match {
    case Some(bytes) =>
      s"with the best other layout they would read ${Bytes.text(bytes.toLong)}: not worth a rewrite"
    case None if facts.columns.isEmpty => "no column has a condition by which files can be skipped"
    case None => s"it is too small to be cut into objects of ${Bytes.text(objectBytes)}"
  }
}

/**
 * A level of a candidate's layout.
 *
 * @param ranges
 *   the number of ranges; None: each value by itself
 */
private[advise] case class Level(column: String, ranges: Option[Int])

/** A layout that is worth comparing, with its outermost level first. */
private[advise] case class Candidate(layout: Layout, levels: Seq[Level]) {

  /**
   * The complexity, by which the simpler of two similar layouts wins; directories help engines without an index, too.
   */
  def complexity: Int = levels.size * 2 + (if (layout.partitionBy.isEmpty) 1 else 0)
}

/**
 * The candidates: by the values of one column or by its ranges, and within these by ranges of another one. A third
 * column would leave too few ranges for each.
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
      // The number of ranges in a partition follows from its own size.
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

/**
 * Estimates the reads of the recorded scans in other layouts, and describes their conditions. For one thread.
 *
 * A scan reads the objects with a range that may hold its keys. The estimate takes the columns of a layout as
 * independent, and the savings by other columns in the table's present order as lost.
 */
private[advise] class Costs(notes: Seq[ScanNote], facts: TableFacts) {

  import Costs._

  private val ranges = mutable.Map.empty[Level, CutPoints]
  private val reaches = mutable.Map.empty[(Level, RangeSet), Double]

  /** The estimated bytes that all scans would read. */
  def of(candidate: Candidate): Double =
    // Sorted: with sums that depend on the order of the notes, so did the choice among equal candidates.
    notes.map(note => note.scans * facts.bytes * candidate.levels.map(reach(_, note)).product).sorted.sum

  /** The scans that a column of the layout serves, in words. */
  def use(column: String): String = {
    val asking = conditions(column)
    val kinds = Seq("joins" -> true, "filters" -> false).collect {
      case (word, byJoin) if asking.exists(_._2.byJoin == byJoin) => word
    }
    s"${asked(column)} by ${kinds.mkString(" and ")}, on average for ${percent(meanReach(column))} of the table's rows"
  }

  /** The reasons why other columns with conditions are not in the layout. */
  def unused(chosen: Candidate): Seq[String] =
    for {
      column <- notes.flatMap(_.conditions).map(_.column).distinct.sorted if !chosen.layout.columns.contains(column)
    } yield
      if (!facts.columns.contains(column)) s"${asked(column)}, but files cannot be skipped by values of its type"
      else if (!conditions(column).exists(_._2.keys.isDefined)) s"${asked(column)}, with keys that were not observed"
      else if (meanReach(column) > Useless)
        s"${asked(column)}, with keys all over its values: no order by it would help"
      else s"${asked(column)}; the columns chosen save more"

  private def asked(column: String): String =
    s"$column: in conditions of ${scans(conditions(column).map(_._1).distinct.map(_.scans).sum)}"

  /** The share of the table that a scan reads, by this level alone. */
  private def reach(level: Level, note: ScanNote): Double =
    note.conditions
      .collect { case Condition(level.column, _, Some(keys)) =>
        reach(level, keys)
      }
      .minOption
      .getOrElse(1.0)

  private def reach(level: Level, keys: RangeSet): Double =
    reaches.getOrElseUpdate((level, keys), facts.columns(level.column).share(rangesOf(level), keys))

  private def rangesOf(level: Level): CutPoints = ranges.getOrElseUpdate(
    level, {
      val sample = facts.columns(level.column)
      level.ranges.fold(sample.singles)(sample.ranges)
    }
  )

  private def conditions(column: String): Seq[(ScanNote, Condition)] =
    for (note <- notes; condition <- note.conditions if condition.column == column) yield note -> condition

  /** The mean share of rows in the finest ranges with a key, over all scans with known keys. */
  private def meanReach(column: String): Double = {
    val asking =
      for ((note, condition) <- conditions(column); keys <- condition.keys)
        yield note.scans -> reach(Level(column, None), keys)
    asking.map { case (scans, share) => scans * share }.sum / math.max(asking.map(_._1).sum, 1)
  }
}

private[advise] object Costs {

  /** The share of the table above which a column's keys are too scattered, however finely it is cut. */
  private val Useless = 0.9

  def scans(count: Long): String = if (count == 1) "1 scan" else s"$count scans"

  def percent(share: Double): String =
    if (share > 0 && share < 0.01) "less than 1 %" else "%.0f %%".formatLocal(Locale.ROOT, share * 100)
}

/**
 * The reads of scans from a table as it is, with pruned partitions and files skipped by its index. The recorded scans
 * may have run before the index, without skipping, or over fewer rows.
 */
private[advise] class PresentLayout(partitions: Seq[PresentPartition], index: TableIndex) {

  private val indexed = index.columns.map(_.name).toSet

  /** The bytes of the files that may match the conditions. */
  def bytes(asked: Seq[Condition]): Long = {
    val known = for (Condition(column, _, Some(keys)) <- asked) yield column -> keys
    val filters = for ((column, keys) <- known if indexed(column)) yield FileFilter.among(column, keys)
    val matching = index.select(FileFilter.and(filters))
    partitions.filter(_.mayHold(known)).map(_.bytes(matching)).sum
  }
}

/**
 * The files of one partition.
 *
 * @param values
 *   the values that have a domain, by partition column; empty where it is null
 * @param numbers
 *   the files' numbers in the index; -1 where it does not have the present version
 * @param lengths
 *   the sizes of the same files, in bytes
 */
private[advise] case class PresentPartition(values: Map[String, RangeSet], numbers: Seq[Int], lengths: Seq[Long]) {

  def mayHold(asked: Seq[(String, RangeSet)]): Boolean =
    asked.forall { case (column, keys) => values.get(column).forall(!_.intersect(keys).isEmpty) }

  def bytes(matching: BitSet): Long =
    numbers.lazyZip(lengths).collect { case (number, length) if number < 0 || matching.get(number) => length }.sum
}

private[advise] object PresentLayout {

  /** The present layout; None where the table has no index. */
  def of(spark: SparkSession, table: SourceTable): Option[PresentLayout] =
    IndexCatalog.find(spark, table.relation).map { index =>
      val listedFiles = new ListedFiles(index)
      val partitions = table.relation.location.listFiles(Nil, Nil).map { listed =>
        val values = listed.values.toSeq(table.relation.partitionSchema)
        PresentPartition(
          keys(table.relation.partitionSchema, values),
          listed.files.map(listedFiles.number),
          listed.files.map(_.getLen)
        )
      }
      new PresentLayout(partitions, index)
    }

  private def keys(columns: StructType, values: Seq[Any]): Map[String, RangeSet] = {
    for {
      (column, value) <- columns.zip(values)
      encoding <- ValueEncoding.of(column.dataType, column.dataType)
    } yield column.name -> encoding.points(Option(value).iterator)
  }.toMap
}

private[advise] object Bytes {

  private val units = Seq("B", "KiB", "MiB", "GiB", "TiB")

  /** The size in the largest unit that yields at least one. */
  def text(bytes: Long): String = {
    val unit = units.indices.findLast(i => bytes >= (1L << (10 * i))).getOrElse(0)
    if (unit == 0) s"$bytes B" else "%.1f %s".formatLocal(Locale.ROOT, bytes / math.pow(1024, unit), units(unit))
  }
}
