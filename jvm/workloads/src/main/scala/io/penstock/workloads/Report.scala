package io.penstock.workloads

import java.io.OutputStream
import java.nio.charset.StandardCharsets.UTF_8
import java.util.{Base64, Locale}

import scala.collection.immutable.ListMap
import scala.util.Using

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.module.scala.DefaultScalaModule
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.Row
import org.apache.spark.sql.types.StructType

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

/**
 * One file of JSON objects, one a line, in any Hadoop file system. An object store shows the file only once it is
 * closed, whole; a file system with real files shows each line as it is written.
 */
class JsonLines(out: OutputStream) extends AutoCloseable {

  /** Map entries appear in the order of the map: use a `ListMap` where people will read it. */
  def write(line: Map[String, Any]): Unit = {
    out.write((JsonLines.mapper.writeValueAsString(line) + "\n").getBytes(UTF_8))
    out.flush()
  }

  override def close(): Unit = out.close()
}

object JsonLines {
  private val mapper = new ObjectMapper().registerModule(DefaultScalaModule)

  /** Replaces what is at `uri`. */
  def create(uri: String, configuration: Configuration): JsonLines = {
    val path = new Path(uri)
    new JsonLines(path.getFileSystem(configuration).create(path, true))
  }
}

/**
 * Spark's values as JSON has them: numbers stay numbers where JSON's readers keep them exact, everything without a JSON
 * form (decimals, dates, bytes, not-a-number) becomes a string. The column's type beside it says how to read it.
 */
object JsonValues {

  def row(row: Row): Seq[Any] = row.toSeq.map(value)

  def columns(schema: StructType): Seq[Map[String, String]] =
    schema.fields.toSeq.map(field => ListMap("name" -> field.name, "type" -> field.dataType.simpleString))

  def value(any: Any): Any = any match {
    case null => null
    case truth: Boolean => truth
    case number @ (_: Byte | _: Short | _: Int | _: Long) => number
    case number: Double => if (number.isNaN || number.isInfinite) number.toString else number
    case number: Float => if (number.isNaN || number.isInfinite) number.toString else number
    case decimal: java.math.BigDecimal => decimal.toPlainString
    case text: String => text
    case bytes: Array[Byte] => Base64.getEncoder.encodeToString(bytes)
    case struct: Row => struct.schema.fieldNames.zip(struct.toSeq.map(value)).to(ListMap)
    case map: scala.collection.Map[_, _] =>
      map.toSeq.map { case (key, of) => String.valueOf(value(key)) -> value(of) }.to(ListMap)
    case elements: scala.collection.Seq[_] => elements.map(value)
    case other => other.toString
  }
}
