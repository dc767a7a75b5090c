package io.penstock.sql

import java.io.FileNotFoundException
import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.immutable.ListMap
import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.SparkThrowable
import org.apache.spark.sql.SparkSession

import io.penstock.application.{Application, Arguments, JsonLines, JsonValues, UsageError}

/**
 * Runs the statements of a file and writes what each answered to one file of JSON lines.
 *
 * Stops at the first statement that fails: it is recorded with its error, the message goes to standard error, and the
 * exit code is 1.
 */
object SqlRunner extends Application {

  private val usage = "SqlRunner --output URI --statements-file PATH [--limit N]"
  private val known = Set("output", "statements-file", "limit")

  override def run(arguments: Seq[String]): Int = {
    val options = Arguments.parse(arguments, known, usage)
    val output = options.required("output")
    val file = options.required("statements-file")
    val limit = options.optional("limit").map(_ => options.int("limit", 0, atLeast = 1))
    val spark = SparkSession.builder().appName("SQL").getOrCreate()
    val statements = StatementSplitter.split(read(spark, file))
    if (statements.isEmpty) throw new UsageError(s"$file holds no SQL statement.")
    val runner = new StatementRun(spark, limit)
    val failed = Using.resource(JsonLines.create(output, spark.sparkContext.hadoopConfiguration)) { lines =>
      statements.zipWithIndex.exists { case (statement, index) =>
        spark.sparkContext.setJobDescription(s"statement ${index + 1} of ${statements.size}")
        val result = runner.execute(statement)
        lines.write(result.record)
        result.error.foreach(Console.err.println)
        result.error.isDefined
      }
    }
    spark.stop()
    if (failed) 1 else 0
  }

  private def read(spark: SparkSession, file: String): String = {
    val path = new Path(file)
    val fileSystem = path.getFileSystem(spark.sparkContext.hadoopConfiguration)
    if (!fileSystem.exists(path)) throw new UsageError(s"There is no file $file.")
    Using.resource(fileSystem.open(path))(in => new String(in.readAllBytes(), UTF_8))
  }
}

/** The outcome of one statement; `error` is a message for users, without a stack trace or plan. */
private case class StatementResult(record: Map[String, Any], error: Option[String])

private class StatementRun(spark: SparkSession, limit: Option[Int]) {

  def execute(statement: String): StatementResult = {
    val startedMs = System.currentTimeMillis()
    val started = System.nanoTime()
    def times = ListMap[String, Any]("started_ms" -> startedMs, "elapsed_ms" -> (System.nanoTime() - started) / 1e6)
    try {
      val frame = spark.sql(statement)
      // One more than asked for tells a full answer from a cut one. No array holds more than the largest number.
      val rows = limit.filter(_ < Int.MaxValue).fold(frame.collect())(most => frame.limit(most + 1).collect())
      val shown = limit.fold(rows)(rows.take)
      val values = JsonValues.of(spark)
      val record = ListMap[String, Any](
        "statement" -> statement,
        "columns" -> JsonValues.columns(frame.schema),
        "rows" -> shown.map(values.row).toSeq,
        "truncated" -> (rows.length > shown.length)
      )
      StatementResult(record ++ times, None)
    } catch {
      case NonFatal(error) =>
        val message = SqlErrors.message(error)
        StatementResult(ListMap[String, Any]("statement" -> statement, "error" -> message) ++ times, Some(message))
    }
  }
}

/** The message for users about a failed statement. */
object SqlErrors {

  /** The innermost cause that Spark itself worded, else the innermost cause: the outer ones say "stage failed". */
  def message(error: Throwable): String = {
    val causes = Iterator.iterate(error)(_.getCause).takeWhile(_ != null).take(32).toSeq
    val worded = causes.reverse.collectFirst { case known: SparkThrowable if known.getCondition != null => known }
    val isRead = worded.forall(_.getCondition.startsWith("FAILED_READ_FILE"))
    causes.collectFirst { case gone: FileNotFoundException if isRead => lostFile(gone) }.getOrElse {
      readable(worded.getOrElse(causes.last))
    }
  }

  private def lostFile(gone: FileNotFoundException): String =
    s"""A table was changed or dropped while the statement read it
       |Why: a file is gone: ${readable(gone)}
       |Fix: run the statement again; if it fails again, something else than Penstock's engines has removed the file""".stripMargin

  private def readable(error: Throwable): String = {
    val text = Option(error.getMessage).filter(_.nonEmpty).getOrElse(error.getClass.getSimpleName)
    // Analysis errors end with the logical plan, job failures with stacks: neither helps a user.
    text.linesIterator
      .takeWhile(line => !line.startsWith("'") && !line.startsWith("Driver stacktrace"))
      .filterNot(line => line.startsWith("\tat ") || line.matches("\\t\\.\\.\\. \\d+ more"))
      .mkString("\n")
      .trim
  }
}

/** Cuts a script into its statements: at each `;` that is not inside quotes or a comment. */
object StatementSplitter {

  /** The statements without their `;`, trimmed; parts that hold nothing but blanks and comments are left out. */
  def split(script: String): Seq[String] = {
    val statements = Seq.newBuilder[String]
    var start = 0
    var position = 0
    var hasCode = false
    while (position < script.length) {
      val end = tokenEnd(script, position)
      val token = script.charAt(position)
      if (token == ';') {
        if (hasCode) statements += script.substring(start, position).trim
        start = end
        hasCode = false
      } else if (!isComment(script, position) && !token.isWhitespace) hasCode = true
      position = end
    }
    if (hasCode) statements += script.substring(start).trim
    statements.result()
  }

  /** The end of the quoted text, comment, word or single other character that begins at `position`. */
  private def tokenEnd(script: String, position: Int): Int = script.charAt(position) match {
    case quote @ ('\'' | '"') => quoteEnd(script, position + 1, quote, escapes = true)
    case '`' => quoteEnd(script, position + 1, '`', escapes = false)
    case '-' if script.startsWith("--", position) => orEnd(script, script.indexOf('\n', position))
    case '/' if script.startsWith("/*", position) => bracketEnd(script, position + 2)
    case 'r' | 'R' if script.startsWith("'", position + 1) || script.startsWith("\"", position + 1) =>
      quoteEnd(script, position + 2, script.charAt(position + 1), escapes = false)
    case _ => wordEnd(script, position).max(position + 1)
  }

  /** A word is one token, so an `r` at its end does not make the text behind it a raw one. */
  @annotation.tailrec
  private def wordEnd(script: String, position: Int): Int =
    if (position >= script.length) position
    else {
      val letter = script.codePointAt(position)
      if (Character.isLetterOrDigit(letter) || letter == '_') wordEnd(script, position + Character.charCount(letter))
      else position
    }

  private def isComment(script: String, position: Int): Boolean =
    script.startsWith("--", position) || script.startsWith("/*", position)

  // A doubled quote needs no care of its own: it reads as the end of one quoted text and the start of the next.
  @annotation.tailrec
  private def quoteEnd(script: String, position: Int, quote: Char, escapes: Boolean): Int =
    if (position >= script.length) script.length
    else if (escapes && script.charAt(position) == '\\') quoteEnd(script, position + 2, quote, escapes)
    else if (script.charAt(position) == quote) position + 1
    else quoteEnd(script, position + 1, quote, escapes)

  /** Spark's bracketed comments nest. */
  private def bracketEnd(script: String, from: Int): Int = {
    var depth = 1
    var position = from
    while (depth > 0 && position < script.length)
      if (script.startsWith("/*", position)) { depth += 1; position += 2 }
      else if (script.startsWith("*/", position)) { depth -= 1; position += 2 }
      else position += 1
    position
  }

  private def orEnd(script: String, index: Int): Int = if (index < 0) script.length else index
}
