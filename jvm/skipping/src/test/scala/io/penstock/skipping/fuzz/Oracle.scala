package io.penstock.skipping.fuzz

import java.nio.file.Path

import scala.util.control.NonFatal

import org.apache.iceberg.spark.source.{FilesSkippedByKeys, IndexedQueryScan}
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanHelper
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec
import org.apache.spark.sql.execution.{FileSourceScanExec, SparkPlan}
import org.apache.spark.sql.{Row, SparkSession}

import io.penstock.skipping.model.SkippingSettings.Prefix
import io.penstock.skipping.plan.SkippingKeys

/** What came of a query. */
sealed trait Outcome

object Outcome {

  /**
   * @param rows
   *   in an order of their own
   * @param scans
   *   by table, the one of its scans that read the fewest files
   */
  final case class Answer(rows: Seq[String], scans: Map[String, Scan]) extends Outcome

  /** @param byKeys whether keys of a join may have skipped files of it */
  final case class Scan(files: Long, byKeys: Boolean)

  final case class Failure(why: String) extends Outcome
}

/** What the comparison of two outcomes says. */
sealed trait Verdict

object Verdict {

  /**
   * @param skipped
   *   files that were read without skipping only
   * @param byKeys
   *   whether a join's keys had a part in it
   */
  final case class Same(skipped: Long, byKeys: Boolean) extends Verdict

  /** The query fails without skipping, too: it says nothing. */
  final case class Pointless(why: String) extends Verdict

  final case class Different(how: String) extends Verdict

  /**
   * @param eagerly
   *   what comes of the query without skipping where each side of each join is run. An adaptive plan cancels the rest
   *   of a join once a side has no rows: whether that has failed by then is chance.
   */
  def of(expected: Outcome, got: Outcome, eagerly: => Outcome): Verdict = (expected, got) match {
    case (Outcome.Failure(why), _) => Pointless(why)
    case (_, Outcome.Failure(why)) =>
      eagerly match {
        case Outcome.Failure(own) if condition(own) == condition(why) =>
          Pointless(s"unless a side without rows is first: $own")
        case _ => Different(s"with skipping it fails: $why")
      }
    case (expected: Outcome.Answer, got: Outcome.Answer) =>
      if (got.rows == expected.rows) same(expected.scans, got.scans)
      else Different(difference(expected.rows, got.rows))
  }

  /** The name of Spark's error, without the value that it met first. */
  private def condition(why: String): String = why.takeWhile(_ != ']')

  private def same(without: Map[String, Outcome.Scan], and: Map[String, Outcome.Scan]): Verdict = {
    val fewer = for {
      (table, scan) <- without.toSeq
      skipping <- and.get(table)
      if skipping.files < scan.files
    } yield (scan.files - skipping.files, skipping.byKeys)
    Same(fewer.map(_._1).sum, fewer.exists(_._2))
  }

  private def difference(expected: Seq[String], got: Seq[String]): String = {
    val (missing, surplus) = (expected.diff(got), got.diff(expected))
    s"of ${expected.size} rows ${missing.size} are missing, ${surplus.size} are too many\n" +
      (missing.take(5).map("  - " + _) ++ surplus.take(5).map("  + " + _)).mkString("\n")
  }
}

/**
 * Asks one session with skipping and one without.
 *
 * @param directory
 *   whose subdirectories are the tables
 */
final class Oracle(on: SparkSession, off: SparkSession, directory: Path) extends AdaptiveSparkPlanHelper {

  on.conf.set(Prefix + "enabled", "true")
  off.conf.set(Prefix + "enabled", "false")

  private val base = directory.toUri.getPath.stripSuffix("/") + "/"

  def check(query: Query): Verdict = check(Seq(query)).head

  /**
   * Compares one query in several ways. Without skipping, the first one's answer is that of all: where another way has
   * another answer, that way is asked without skipping, too, since Spark's own answers may differ by its settings.
   */
  def check(ways: Seq[Query]): Seq[Verdict] = {
    val expected = ask(off, ways.head)
    ways.map { query =>
      val eager = query.copy(settings = query.settings + ("spark.sql.adaptive.enabled" -> "false"))
      Verdict.of(expected, ask(on, query), ask(off, eager)) match {
        case _: Verdict.Different if query.settings != ways.head.settings => check(query)
        case verdict => verdict
      }
    }
  }

  def explain(query: Query): String =
    on.sql(query.sql).queryExecution.explainString(org.apache.spark.sql.execution.FormattedMode)

  private def ask(session: SparkSession, query: Query): Outcome = {
    Settings.names.foreach(name => query.settings.get(name).fold(session.conf.unset(name))(session.conf.set(name, _)))
    try {
      val frame = session.sql(query.sql)
      val rows = frame.collect().map(text).sorted.toSeq
      Outcome.Answer(rows, scans(frame.queryExecution.executedPlan))
    } catch {
      case NonFatal(error) => Outcome.Failure(error.toString)
    }
  }

  private def scans(plan: SparkPlan): Map[String, Outcome.Scan] =
    collectWithSubqueries(plan) {
      case scan: FileSourceScanExec => ofParquet(scan)
      case scan: BatchScanExec => ofIceberg(scan)
    }.flatten
      .groupMapReduce(_._1)(_._2)((a, b) => if (a.files <= b.files) a else b)

  private def ofParquet(scan: FileSourceScanExec): Option[(String, Outcome.Scan)] = for {
    path <- scan.relation.location.rootPaths.headOption.map(_.toUri.getPath)
    if path.startsWith(base)
    byKeys = scan.dataFilters.exists(_.isInstanceOf[SkippingKeys])
  } yield path.drop(base.length).takeWhile(_ != '/') -> Outcome.Scan(scan.metrics("numFiles").value, byKeys)

  private def ofIceberg(scan: BatchScanExec): Option[(String, Outcome.Scan)] = Some(scan.scan).collect {
    case indexed: IndexedQueryScan =>
      val left = indexed.index.files - scan.metrics(FilesSkippedByKeys.Name).value
      scan.table.name.split('.').last -> Outcome.Scan(left, byKeys = true)
  }

  private def text(row: Row): String = row.toSeq
    .map {
      case bytes: Array[Byte] => bytes.map(byte => f"$byte%02x").mkString
      // Which of the two zeros stands for a group is by chance.
      case zero: Double if zero == 0 => "0.0"
      case zero: Float if zero == 0 => "0.0"
      case other => String.valueOf(other)
    }
    .mkString("|")
}
