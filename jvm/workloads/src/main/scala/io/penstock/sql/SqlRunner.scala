package io.penstock.sql

import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.immutable.ListMap
import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession

import io.penstock.workloads.{Application, Arguments, JsonLines, JsonValues, UsageError}

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

/** What one statement came to; `error` is for people: no stack trace, no plan. */
private case class StatementResult(record: Map[String, Any], error: Option[String])

private class StatementRun(spark: SparkSession, limit: Option[Int]) {

  def execute(statement: String): StatementResult = {
    val started = System.nanoTime()
    try {
      val frame = spark.sql(statement)
      // One more than asked for tells a full answer from a cut one.
      val rows = limit.fold(frame.collect())(most => frame.limit(most + 1).collect())
      val shown = limit.fold(rows)(rows.take)
      val record = ListMap[String, Any](
        "statement" -> statement,
        "columns" -> JsonValues.columns(frame.schema),
        "rows" -> shown.map(JsonValues.row).toSeq,
        "truncated" -> (rows.length > shown.length),
        "elapsed_ms" -> (System.nanoTime() - started) / 1e6
      )
      StatementResult(record, None)
    } catch {
      case NonFatal(error) =>
        val message = SqlErrors.message(error)
        StatementResult(ListMap("statement" -> statement, "error" -> message), Some(message))
    }
  }
}
