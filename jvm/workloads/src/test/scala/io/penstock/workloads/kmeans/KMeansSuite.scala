package io.penstock.workloads.kmeans

import java.nio.file.Files

import scala.jdk.CollectionConverters._

import org.apache.spark.rdd.RDD
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.penstock.workloads.{LocalSpark, Report}

class KMeansSuite extends AnyFunSuite with LocalSpark with ScalaCheckPropertyChecks {

  private def blocks(truth: Clusters, parts: Int): RDD[PointBlock] = {
    val order = if (parts == 1) 0L until truth.points else truth.points - 1 to 0L by -1
    spark.sparkContext.parallelize(order, parts).mapPartitions { indices =>
      PointBlock.blocks(indices.map(truth.point), truth.dimensions)
    }
  }

  private def trained(blocks: RDD[PointBlock], start: Array[Array[Double]]): Array[Array[Double]] =
    (1 to 3).foldLeft(start)((centres, _) => Assignment.of(blocks, centres).means(centres))

  private def exact(truth: Clusters): Array[Array[Double]] = {
    val byCentre = (0L until truth.points).groupBy(truth.clusterOf)
    Array.tabulate(truth.clusters) { cluster =>
      val points = byCentre(cluster).map(truth.point)
      Array.tabulate(truth.dimensions)(dimension => points.map(_(dimension).toDouble).sum / points.size)
    }
  }

  test("centres are apart by at least the separation, in few dimensions and in many") {
    forAll(Gen.choose(2, 30), Gen.choose(1, 60), Gen.choose(0L, 1000000L)) { (dimensions, clusters, seed) =>
      val truth = Clusters(1000, dimensions, clusters, seed)
      for (one <- 0 until clusters; other <- 0 until one)
        assert(Distance.squared(truth.centres(one), truth.centres(other)) >= truth.separation * truth.separation)
    }
  }

  test("the nearest centre is the one a plain search finds") {
    val truth = Clusters(points = 500, dimensions = 3, clusters = 7, seed = 5)
    val centres = (1L to 9).map(index => truth.point(index * 17).map(_.toDouble)).toArray
    val block = PointBlock((0L until truth.points).flatMap(truth.point).toArray, 3)
    val distances = new Array[Double](centres.length)
    for (index <- 0 until block.size) {
      val plain = centres.map(Distance.squared(_, block.point(index)))
      assert(new Centres(centres).nearest(block, index, distances) == plain.indexOf(plain.min))
      assert(distances.zip(plain).forall { case (one, other) => math.abs(one - other) <= 1e-9 * other })
    }
  }

  for (
    truth <- Seq(
      Clusters(points = 20000, dimensions = 20, clusters = 10, seed = 1),
      Clusters(points = 3000, dimensions = 2, clusters = 37, seed = 2),
      Clusters(points = 2000, dimensions = 5, clusters = 1, seed = 3),
      Clusters(points = 900, dimensions = 4, clusters = 300, seed = 4)
    )
  ) test(s"$truth: training finds every centre, from any split of the points") {
    val verdict = new KMeansVerdict(truth)
    val found = Seq(1, 3).map { parts =>
      val points = blocks(truth, parts).cache()
      val start = new InitialCentres(points, truth.clusters, passes = 5, seed = truth.seed).centres()
      val centres = trained(points, start)
      val assigned = Assignment.of(points, centres)
      assert(verdict.centres(centres).isEmpty)
      assert(verdict.sizes(centres, assigned.counts).isEmpty)
      assert(verdict.cost(assigned.cost).isEmpty)
      start -> centres
    }
    assert(found.map(_._1.toSeq.map(_.toSeq)).distinct.size == 1, "the start depends on how points were spread")
    for (centre <- exact(truth))
      assert(found.head._2.exists(Distance.squared(_, centre) < 1e-6))
  }

  test("k-means++ chooses by distance and weight: a far point of no weight is never chosen, a heavy far one always") {
    val points = Array(Array(0.0), Array(1.0), Array(1000.0), Array(-5000.0))
    for (seed <- 1L to 50) {
      val chosen = PlusPlus.choose(points, Array(100.0, 100.0, 100.0, 0.0), 2, seed).map(_.head)
      assert(chosen.contains(1000.0) && !chosen.contains(-5000.0))
    }
  }

  private lazy val truth = Clusters(points = 4000, dimensions = 6, clusters = 8, seed = 9)
  private lazy val right = exact(truth)
  private lazy val verdict = new KMeansVerdict(truth)

  test("a centre that is off, missing or found twice is called wrong") {
    assert(verdict.centres(right).isEmpty)
    assert(verdict.centres(right.reverse).isEmpty)
    val off = right.updated(3, right(3).updated(0, right(3)(0) + 2 * verdict.tolerance))
    assert(verdict.centres(off).get.startsWith("1 generated centres were not found"))
    assert(verdict.centres(right.init).get.startsWith("1 generated"))
    assert(verdict.centres(right.updated(3, right(4))).get.contains("1 were found more than once"))
    assert(verdict.centres(right :+ Array.fill(6)(-1e6)).get.contains("1 of those found are near none"))
    assert(verdict.centres(right.updated(3, Array.fill(6)(Double.NaN))).isDefined)
  }

  test("points that were lost, doubled or moved are called wrong") {
    val assigned = Assignment.of(blocks(truth, 2), right)
    assert(verdict.sizes(right, assigned.counts).isEmpty)
    assert(verdict.sizes(right, assigned.counts.updated(0, assigned.counts(0) - 1)).isDefined)
    val swapped = assigned.counts.updated(0, assigned.counts(0) - 1).updated(1, assigned.counts(1) + 1)
    assert(verdict.sizes(right, swapped).get.contains("2 clusters have another size"))
    assert(verdict.cost(assigned.cost).isEmpty)
    assert(verdict.cost(assigned.cost * 1.2).isDefined)
    assert(verdict.cost(assigned.cost * 0.8).isDefined)
    assert(verdict.cost(Double.NaN).isDefined)
  }

  test("points written to files are read back, and the report says what was timed and that it was right") {
    val files = new PointFiles(spark, directory.resolve("points").toUri.toString.stripSuffix("/"))
    files.write(truth, objectSize = 32 << 10)
    assert(files.truth() == truth)
    val read = files.points(truth.dimensions).flatMap(block => (0 until block.size).map(block.point(_).toSeq)).collect()
    val generated = (0L until truth.points).map(truth.point(_).toSeq.map(_.toDouble))
    assert(read.toSeq.sortBy(_.toString) == generated.sortBy(_.toString))
    val report = directory.resolve("report.jsonl")
    Report.to(report.toUri.toString, spark.sparkContext.hadoopConfiguration)(new Training(spark, files, _).run(3, 5))
    val lines = Files.readAllLines(report).asScala
    val names = lines.filter(_.contains("\"kind\":\"measure\"")).map(_.split("\"name\":\"")(1).takeWhile(_ != '"'))
    assert(names == Seq("read", "start", "train"))
    assert(lines.contains(s"""{"kind":"opened","files":${files.count}}"""))
    assert(lines.count(_.contains("\"right\":true")) == 3 && !lines.exists(_.contains("\"right\":false")))
  }
}
