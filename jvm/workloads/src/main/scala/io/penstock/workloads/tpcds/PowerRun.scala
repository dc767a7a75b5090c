package io.penstock.workloads.tpcds

import scala.util.Using

import org.apache.spark.sql.SparkSession

import io.penstock.workloads.{Application, Arguments, JsonLines, UsageError}

/**
 * Runs queries one after the other in one session and records each: how long, what it read, and what it answered.
 *
 * `samples.jsonl` has a line per timed execution, `answers.jsonl` the rows of each query's first one. A query that
 * fails is recorded and the run goes on; the exit code is 1 if any failed.
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
        val samples = use(JsonLines.create(s"$output/samples.jsonl", configuration))
        val answers = use(JsonLines.create(s"$output/answers.jsonl", configuration))
        val run = new QueryRun(spark, queries.size)
        for (iteration <- 1 - warmup to iterations; (query, index) <- queries.zipWithIndex) yield {
          val execution = run.execute(query, index + 1)
          if (iteration >= 1) samples.write(execution.sample(iteration))
          if (iteration == 1) execution.answer.foreach(answers.write)
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
