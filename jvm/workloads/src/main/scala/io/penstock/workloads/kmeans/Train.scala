package io.penstock.workloads.kmeans

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.storage.StorageLevel

import io.penstock.workloads.{Application, Arguments, Report}

/**
 * Reads points, finds as many centres as were generated, and compares them with those. Exit code 0 also where the
 * result is wrong: the report says so.
 */
object Train extends Application {

  private val usage = "Train --input URI --report URI [--iterations N] [--passes N]"
  private val known = Set("input", "report", "iterations", "passes")

  override def run(arguments: Seq[String]): Int = {
    val options = Arguments.parse(arguments, known, usage)
    val input = options.required("input").stripSuffix("/")
    val reportUri = options.required("report")
    val iterations = options.int("iterations", 20, atLeast = 1)
    val passes = options.int("passes", 5, atLeast = 1)
    val spark = SparkSession.builder().appName("K-means: train").getOrCreate()
    Report.to(reportUri, spark.sparkContext.hadoopConfiguration) { report =>
      new Training(spark, new PointFiles(spark, input), report).run(iterations, passes)
    }
    spark.stop()
    0
  }
}

/**
 * A fixed number of Lloyd's iterations from where k-means|| starts. Fixed, because the time of a training that stops by
 * itself is that of a number of iterations which depends on the order in which partial sums happen to arrive.
 */
private[kmeans] class Training(spark: SparkSession, files: PointFiles, report: Report) {

  def run(iterations: Int, passes: Int): Unit = {
    val truth = files.truth()
    val bytes = files.bytes
    val blocks = files.points(truth.dimensions).persist(StorageLevel.MEMORY_AND_DISK)
    describe("read the points")
    val (read, readMs) = report.timed(blocks.map(_.size.toLong).fold(0L)(_ + _))
    if (read == 0) throw new IllegalStateException("There are no points to train with.")
    report.measure("read", readMs, bytes, read)

    describe(s"start: k-means|| in $passes passes")
    val (start, startMs) = report.timed(new Start(blocks, truth.clusters, passes, truth.seed).centres())
    report.measure("start", startMs, bytes, read, "passes" -> passes)

    val (centres, trainMs) = report.timed(iterate(blocks, start, iterations))
    report.measure("train", trainMs, bytes, read, "iterations" -> iterations)

    describe("check the centres")
    judge(new Verdict(truth), centres, Assignment.of(blocks, centres))
    blocks.unpersist()
  }

  private def iterate(blocks: RDD[PointBlock], start: Array[Array[Double]], count: Int): Array[Array[Double]] =
    (1 to count).foldLeft(start) { (centres, iteration) =>
      describe(s"train ($iteration of $count)")
      Assignment.of(blocks, centres).means(centres)
    }

  private def judge(verdict: Verdict, centres: Array[Array[Double]], assigned: Assignment): Unit = {
    report.check(
      "centres",
      verdict.centres(centres),
      f"each generated centre found once, within ${verdict.tolerance}%.3g"
    )
    report.check(
      "sizes",
      verdict.sizes(centres, assigned.counts),
      s"all ${assigned.counts.sum} points with their own centre"
    )
    report.check("cost", verdict.cost(assigned.cost), s"${assigned.cost}, that of the generated noise")
  }

  private def describe(step: String): Unit = spark.sparkContext.setJobDescription(step)
}
