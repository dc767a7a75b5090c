package io.penstock.workloads.tpcds

import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest

import scala.collection.immutable.ListMap
import scala.util.Using
import scala.util.control.NonFatal

import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{Row, SparkSession}

import io.penstock.application.{Application, Arguments, JsonLines, JsonValues, UsageError}
import io.penstock.cluster.observe.ApplicationCounts
import io.penstock.workloads.{TableRead, TableReads}

/**
 * One execution of one query; times are of the wall clock, in milliseconds.
 *
 * @param reads
 *   by table, the files its scans opened; None where Spark does not count them all
 * @param counts
 *   what the file systems of driver and executors counted meanwhile; None where nothing observes them
 */
private case class Execution(
    query: String,
    startedMs: Long,
    elapsedMs: Double,
    planningMs: Option[Double] = None,
    schema: StructType = new StructType(),
    rows: Seq[Row] = Nil,
    reads: Option[Map[String, TableRead]] = None,
    counts: Option[Map[String, Long]] = None,
    error: Option[String] = None
) {

  def sample(iteration: Int): Map[String, Any] = ListMap[String, Any](
    "query" -> query,
    "iteration" -> iteration,
    "started_ms" -> startedMs,
    "elapsed_ms" -> elapsedMs,
    "planning_ms" -> planningMs,
    "rows" -> rows.size,
    "status" -> (if (error.isEmpty) "ok" else "failed")
  ) ++ error.map("error" -> _) ++ reads.map("reads" -> byTable(_)) ++ counts.map("lake" -> _)

  def answer(values: JsonValues): Option[Map[String, Any]] = Option.when(error.isEmpty)(
    ListMap(
      "query" -> query,
      "columns" -> schema.fieldNames.toSeq,
      "types" -> schema.fields.toSeq.map(_.dataType.simpleString),
      "rows" -> rows.map(values.row)
    )
  )

  def line: String = error match {
    case None =>
      val files = reads.fold("")(found => f"  ${found.values.map(_.files).sum}%6d files")
      f"$query%-8s ${elapsedMs / 1000}%8.2f s  ${rows.size}%5d rows$files"
    case Some(message) => f"$query%-8s ${elapsedMs / 1000}%8.2f s  failed: ${message.linesIterator.next()}"
  }

  private def byTable(reads: Map[String, TableRead]): Map[String, Any] = reads.toSeq
    .sortBy(_._1)
    .map { case (table, read) =>
      table -> ListMap("files" -> read.files, "bytes" -> read.bytes)
    }
    .to(ListMap)
}

private class QueryRun(spark: SparkSession, of: Int) {

  /** From the text of the query until all its rows are at the driver: parsing, planning, execution, collection. */
  def execute(query: Query, position: Int): Execution = {
    spark.sparkContext.setJobDescription(s"${query.name} ($position of $of)")
    val before = QueryRun.counts()
    val startedMs = System.currentTimeMillis()
    val started = System.nanoTime()
    def elapsed = (System.nanoTime() - started) / 1e6
    try {
      val frame = spark.sql(query.sql)
      frame.queryExecution.executedPlan
      val planning = elapsed
      val rows = frame.collect()
      val execution = Execution(query.name, startedMs, elapsed, Some(planning), frame.schema, rows.toSeq)
      val plan = frame.queryExecution.executedPlan
      execution.copy(
        reads = Option.when(TableReads.isComplete(plan))(TableReads.of(plan)),
        counts = for (was <- before; now <- QueryRun.counts()) yield QueryRun.since(was, now)
      )
    } catch {
      case NonFatal(error) =>
        val message = Option(error.getMessage).getOrElse(error.toString)
        Execution(query.name, startedMs, elapsed, error = Some(message))
    }
  }
}

private object QueryRun {

  private def since(before: Map[String, Long], now: Map[String, Long]): Map[String, Long] =
    now.collect {
      case (name, value) if value > before.getOrElse(name, 0L) => name -> (value - before.getOrElse(name, 0L))
    }

  // Plain Spark has no such class.
  private def counts(): Option[Map[String, Long]] =
    try ApplicationCounts.now()
    catch { case _: NoClassDefFoundError => None }
}

/**
 * Records executions: `samples` gets a line for each counted one, `answers` the rows of each different answer of a
 * query. Equal answers are checked once, and an answer that only one iteration gave is checked too.
 */
private class PowerRunRecords(samples: JsonLines, answers: JsonLines, values: JsonValues) {

  private val written = scala.collection.mutable.Set.empty[Seq[Byte]]

  /** Record an execution; iterations count from 1, the uncounted ones end with 0. */
  def add(execution: Execution, iteration: Int): Unit = if (iteration >= 1) {
    samples.write(execution.sample(iteration))
    for (answer <- execution.answer(values)) {
      val line = JsonLines.text(answer)
      // The driver keeps no second copy of the rows.
      if (written.add(MessageDigest.getInstance("SHA-256").digest(line.getBytes(UTF_8)).toSeq)) answers.writeText(line)
    }
  }
}

/**
 * Runs queries one after the other in one session and records each: how long, what it read, and what it answered.
 *
 * `samples.jsonl` has a line per timed execution, `answers.jsonl` the rows of each query's different answers. A query
 * that fails is recorded and the run goes on; the exit code is 1 if any failed.
 */
object PowerRun extends Application {

  private val usage =
    "PowerRun --database D --output URI (--queries q3,q7 | --set all|io54|nine) [--iterations N] [--warmup N]"
  private val known = Set("database", "output", "queries", "set", "iterations", "warmup")

  override def run(arguments: Seq[String]): Int = {
    val options = Arguments.parse(arguments, known, usage)
    val database = options.required("database")
    val output = options.required("output").stripSuffix("/")
    val queries = selection(options.list("queries"), options.optional("set")).map(Queries.load)
    val iterations = options.int("iterations", 1, atLeast = 1)
    val warmup = options.int("warmup", 0, atLeast = 0)

    val spark = SparkSession.builder().appName(s"TPC-DS power run, ${queries.size} queries").getOrCreate()
    if (!spark.catalog.databaseExists(database))
      throw new UsageError(s"There is no database '$database' in the catalog.")
    spark.catalog.setCurrentDatabase(database)
    val configuration = spark.sparkContext.hadoopConfiguration
    val failures = Using
      .Manager { use =>
        val records = new PowerRunRecords(
          use(JsonLines.create(s"$output/samples.jsonl", configuration)),
          use(JsonLines.create(s"$output/answers.jsonl", configuration)),
          JsonValues.of(spark)
        )
        val run = new QueryRun(spark, queries.size)
        for (iteration <- 1 - warmup to iterations; (query, index) <- queries.zipWithIndex) yield {
          val execution = run.execute(query, index + 1)
          records.add(execution, iteration)
          println(execution.line)
          if (iteration >= 1 && execution.error.isDefined) 1 else 0
        }
      }
      .get
      .sum
    spark.stop()
    if (failures > 0) Console.err.println(s"$failures of ${queries.size * iterations} executions failed.")
    if (failures > 0) 1 else 0
  }

  private def selection(names: Option[Seq[String]], set: Option[String]): Seq[String] = (names, set) match {
    case (Some(names), None) => Queries.named(names)
    case (None, set) => Queries.set(set.getOrElse("all"))
    case _ => throw new UsageError(s"--queries and --set exclude each other.\nUsage: $usage")
  }
}

/** A query by the name it is asked for and reported under: `q3`, `q14a`, `ss_max`. */
case class Query(name: String, sql: String)

/** The 104 queries, and the sets of them that the field measures. */
object Queries {

  // Four of the 99 come as two statements.
  private val inTwoParts = Set(14, 23, 24, 39)

  /** The 103 statements of the 99 queries, in order, and the scan of store sales that makes them 104. */
  val all: Seq[String] = (1 to 99).flatMap(expand) :+ "ss_max"

  /** The 54 whose time goes into reading: the set of the published comparisons of 3x replication and erasure coding. */
  val io54: Seq[String] = Seq(3, 7, 12, 13, 15, 17, 19, 20, 21, 24, 25, 26, 27, 28, 29, 31, 32, 34, 39, 40, 42, 43, 45,
    46, 48, 49, 51, 52, 55, 56, 60, 63, 64, 65, 66, 68, 71, 73, 75, 76, 79, 82, 83, 84, 85, 87, 88, 89, 90, 91, 92, 93,
    96, 97).flatMap(expand)

  /** Short, selective star joins: the set of the published "power" and "throughput" runs. */
  val nine: Seq[String] = Seq(19, 42, 43, 52, 55, 63, 68, 72, 98).flatMap(expand)

  val sets: Map[String, Seq[String]] = Map("all" -> all, "io54" -> io54, "nine" -> nine)

  def set(name: String): Seq[String] = sets.getOrElse(
    name,
    throw new UsageError(s"There is no query set '$name'. Sets: ${sets.keys.toSeq.sorted.mkString(", ")}.")
  )

  /** Names as a user types them, in that order; `q14` means both its parts. */
  def named(names: Seq[String]): Seq[String] = names.flatMap { name =>
    val parts = if (all.contains(name)) Seq(name) else Seq(s"${name}a", s"${name}b").filter(all.contains)
    if (parts.isEmpty) throw new UsageError(s"There is no query '$name'. Queries: q1 to q99 and ss_max.")
    parts
  }

  def load(name: String): Query = {
    val resource = Option(getClass.getResourceAsStream(s"$name.sql"))
      .getOrElse(throw new IllegalStateException(s"the build left out the query $name"))
    Query(name, Using.resource(resource)(in => new String(in.readAllBytes(), UTF_8)))
  }

  private def expand(number: Int): Seq[String] =
    if (inTwoParts(number)) Seq(s"q${number}a", s"q${number}b") else Seq(s"q$number")
}
