package io.penstock.workloads.tpcds

import java.io.ByteArrayOutputStream
import java.nio.charset.StandardCharsets.UTF_8
import java.time.ZoneOffset

import org.apache.spark.sql.Row
import org.apache.spark.sql.types.{IntegerType, StructType}
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.application.{JsonLines, JsonValues}

class PowerRunRecordsSuite extends AnyFunSuite {

  private val schema = new StructType().add("a", IntegerType)

  private def execution(query: String, values: Int*): Execution =
    Execution(query, startedMs = 0, elapsedMs = 1, schema = schema, rows = values.map(Row(_)))

  private def failed(query: String): Execution =
    Execution(query, startedMs = 0, elapsedMs = 1, error = Some("it failed"))

  /** The number of samples, and the queries with the rows of their answers. */
  private def recorded(executions: (Int, Execution)*): (Int, Seq[String]) = {
    val (samples, answers) = (new ByteArrayOutputStream, new ByteArrayOutputStream)
    val values = new JsonValues(ZoneOffset.UTC)
    val records = new PowerRunRecords(new JsonLines(samples), new JsonLines(answers), values)
    executions.foreach { case (iteration, execution) => records.add(execution, iteration) }
    def lines(out: ByteArrayOutputStream) = out.toString(UTF_8).linesIterator.toSeq
    val shown = """\{"query":"(.*?)",.*"rows":(.*)\}""".r
    (lines(samples).size, lines(answers).collect { case shown(query, rows) => s"$query $rows" })
  }

  test("an answer that only a later iteration gave is recorded, and an answer that was given before is not again") {
    val found = recorded(
      0 -> execution("q1", 7),
      1 -> execution("q1", 1, 2),
      1 -> execution("q2", 1, 2),
      2 -> execution("q1", 1, 2),
      2 -> execution("q2", 1, 3),
      3 -> execution("q1", 1),
      3 -> execution("q2", 1, 2)
    )
    assert(found == (6, Seq("q1 [[1],[2]]", "q2 [[1],[2]]", "q2 [[1],[3]]", "q1 [[1]]")))
  }

  test("a query whose first iteration failed has the answer of the next") {
    assert(recorded(1 -> failed("q1"), 2 -> execution("q1", 1)) == (2, Seq("q1 [[1]]")))
  }
}
