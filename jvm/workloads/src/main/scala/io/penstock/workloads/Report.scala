package io.penstock.workloads

import java.util.Locale

import scala.collection.immutable.ListMap
import scala.util.Using

import org.apache.hadoop.conf.Configuration

import io.penstock.application.JsonLines

/** The samples of one application: what it timed and what it checked, a JSON object a line, for the lab to record. */
class Report(lines: JsonLines) extends AutoCloseable {

  private var wrong = 0

  /** The number of failed checks so far. */
  def wrongChecks: Int = wrong

  /** Runs `work` and returns its result and how long it took, in milliseconds of the wall clock. */
  def timed[T](work: => T): (T, Double) = {
    val started = System.nanoTime()
    val result = work
    (result, (System.nanoTime() - started) / 1e6)
  }

  /** A timed piece of work that was done right. `name` is what reports and comparisons group by. */
  def measure(name: String, elapsedMs: Double, bytes: Long, rows: Long, more: (String, Any)*): Unit = {
    lines.write(
      ListMap[String, Any](
        "kind" -> "measure",
        "name" -> name,
        "elapsed_ms" -> elapsedMs,
        "bytes" -> bytes,
        "rows" -> rows
      ) ++ more
    )
    println("%-16s %8.2f s  %10.1f MB  %,12d rows".formatLocal(Locale.ROOT, name, elapsedMs / 1000, bytes / 1e6, rows))
  }

  /** A validation; `note` says what was expected and what was found. */
  def check(name: String, right: Boolean, note: String): Unit = {
    lines.write(ListMap[String, Any]("kind" -> "check", "name" -> name, "right" -> right, "note" -> note))
    println("%-16s %s: %s".formatLocal(Locale.ROOT, name, if (right) "right" else "WRONG", note))
    if (!right) wrong += 1
  }

  /** A validation whose result is what is wrong, if anything; `note` is for where nothing is. */
  def check(name: String, wrong: Option[String], note: String): Unit = check(name, wrong.isEmpty, wrong.getOrElse(note))

  /** Record the work of that second since the start, or of the `seconds` from then on together. */
  def point(series: String, second: Long, bytes: Long, operations: Long, seconds: Int = 1): Unit = {
    val point =
      ListMap[String, Any]("series" -> series, "second" -> second, "bytes" -> bytes, "operations" -> operations)
    lines.write(ListMap[String, Any]("kind" -> "point") ++ point ++ Option.when(seconds > 1)("seconds" -> seconds))
  }

  /** Record a histogram of latencies: pairs of an upper bound in microseconds and a count, by growing bounds. */
  def latency(name: String, phase: String, histogram: Seq[(Long, Long)]): Unit =
    lines.write(
      ListMap[String, Any](
        "kind" -> "latency",
        "name" -> name,
        "phase" -> phase,
        "unit" -> "us",
        "histogram" -> histogram.map { case (bound, count) => Seq(bound, count) }
      )
    )

  /** Record how many files the application's reads have opened; one that is read twice counts twice. */
  def opened(files: Long): Unit = lines.write(ListMap[String, Any]("kind" -> "opened", "files" -> files))

  /** Requests that failed, by kind; `first` is what the first of them said. */
  def errors(name: String, byKind: Map[String, Long], first: String): Unit = {
    lines.write(ListMap[String, Any]("kind" -> "errors", "name" -> name, "errors" -> byKind, "first" -> first))
    println(s"$name: ${byKind.values.sum} errors, ${byKind.mkString(", ")}; $first")
  }

  override def close(): Unit = lines.close()
}

object Report {

  /** Replaces what is at `uri`. The file is whole once `use` is done; a failure leaves what was written before it. */
  def to[T](uri: String, configuration: Configuration)(use: Report => T): T =
    Using.resource(new Report(JsonLines.create(uri, configuration)))(use)
}
