package io.penstock.workloads.kmeans

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.storage.StorageLevel

import io.penstock.application.{Application, Arguments}
import io.penstock.workloads.Report

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
    report.opened(files.count)

    describe(s"start: k-means|| in $passes passes")
    val (start, startMs) = report.timed(new InitialCentres(blocks, truth.clusters, passes, truth.seed).centres())
    report.measure("start", startMs, bytes, read, "passes" -> passes)

    val (centres, trainMs) = report.timed(iterate(blocks, start, iterations))
    report.measure("train", trainMs, bytes, read, "iterations" -> iterations)

    describe("check the centres")
    judge(new KMeansVerdict(truth), centres, Assignment.of(blocks, centres))
    blocks.unpersist()
  }

  private def iterate(blocks: RDD[PointBlock], start: Array[Array[Double]], count: Int): Array[Array[Double]] =
    (1 to count).foldLeft(start) { (centres, iteration) =>
      describe(s"train ($iteration of $count)")
      Assignment.of(blocks, centres).means(centres)
    }

  private def judge(verdict: KMeansVerdict, centres: Array[Array[Double]], assigned: Assignment): Unit = {
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

/** Checks that training found the generated clusters, pure functions of numbers. */
class KMeansVerdict(truth: Clusters) {

  import KMeansVerdict._

  /**
   * How far a centre found may be from the one generated: the mean of m points with deviation 1 in d dimensions is off
   * by χ²(d)/m, squared.
   */
  val tolerance: Double =
    math.sqrt((truth.dimensions + excess(truth.dimensions)) / truth.sizes.min)

  /** None where each generated centre has exactly one found centre within the tolerance and no other is left. */
  def centres(found: Array[Array[Double]]): Option[String] = {
    val near = truth.centres.map(centre =>
      found.indices.filter(index => math.sqrt(Distance.squared(centre, found(index))) <= tolerance)
    )
    val missed = near.indices.filter(near(_).isEmpty)
    val shared = near.indices.filter(near(_).size > 1)
    val stray = found.indices.diff(near.toSeq.flatten)
    Option.when(missed.nonEmpty || shared.nonEmpty || stray.nonEmpty) {
      s"${missed.size} generated centres were not found, ${shared.size} were found more than once, " +
        s"${stray.size} of those found are near none"
    }
  }

  /** None where as many points are nearest to each centre as were generated around it. */
  def sizes(found: Array[Array[Double]], counts: Array[Long]): Option[String] = {
    val expected =
      found.map(centre => truth.sizes(truth.centres.indices.minBy(i => Distance.squared(centre, truth.centres(i)))))
    val wrong = counts.indices.filter(index => counts(index) != expected(index))
    Option.when(wrong.nonEmpty || counts.sum != truth.points) {
      s"${counts.sum} points of ${truth.points} were read; ${wrong.size} clusters have another size than generated"
    }
  }

  /**
   * None where the cost is that of the generated noise: χ² with one degree of freedom for each number but those the
   * centres took.
   */
  def cost(cost: Double): Option[String] = {
    val freedom = (truth.points - truth.clusters).toDouble * truth.dimensions
    val off = cost / freedom - 1
    val allowed = excess(freedom) / freedom
    Option.when(!(math.abs(off) <= allowed))(s"the cost is off by $off of it; the noise explains $allowed")
  }
}

object KMeansVerdict {

  /** A right result is called wrong with a probability of less than e^-30 a centre: once in 10^13. */
  private val Improbable = 30.0

  /**
   * How much more than its mean a χ² of that freedom may be: χ²(d) exceeds d + 2√(dx) + 2x with a probability below
   * e^-x (Laurent and Massart, Adaptive estimation of a quadratic functional by model selection, 2000, lemma 1).
   */
  private def excess(freedom: Double): Double = 2 * math.sqrt(freedom * Improbable) + 2 * Improbable
}
