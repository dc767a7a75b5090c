package io.penstock.workloads.kmeans

import java.util.SplittableRandom

import scala.collection.immutable.ListMap
import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.{SaveMode, SparkSession}

import io.penstock.application.{Application, Arguments}
import io.penstock.workloads.{DataFiles, Manifest, Mixed, Report}

/**
 * Writes points around known centres as Parquet, one array of floats a row.
 *
 * Data at `--location` is replaced. An interrupted generation leaves no `_manifest.json`.
 */
object GeneratePoints extends Application {

  private val usage =
    "GeneratePoints --location URI --report URI [--points N] [--dimensions D] [--clusters K] [--seed S] [--object-size 64m]"
  private val known = Set("location", "report", "points", "dimensions", "clusters", "seed", "object-size")

  override def run(arguments: Seq[String]): Int = {
    val options = Arguments.parse(arguments, known, usage)
    val location = options.required("location").stripSuffix("/")
    val reportUri = options.required("report")
    val clusters = options.int("clusters", 10, atLeast = 1)
    val truth = Clusters(
      // Fewer than two points a cluster say nothing of its centre.
      points = options.long("points", 1000000, atLeast = 2L * clusters),
      dimensions = options.int("dimensions", 20, atLeast = 2),
      clusters = clusters,
      seed = options.long("seed", 1, atLeast = 0)
    )
    val objectSize = options.size("object-size", "64m")
    val spark = SparkSession.builder().appName(s"K-means: generate ${truth.points} points").getOrCreate()
    Report.to(reportUri, spark.sparkContext.hadoopConfiguration) { report =>
      val files = new PointFiles(spark, location)
      val (_, elapsedMs) = report.timed(files.write(truth, objectSize))
      report.measure("generate", elapsedMs, files.bytes, truth.points)
    }
    spark.stop()
    0
  }
}

/** Points in the lake, and the manifest with the parameters of their generation. */
class PointFiles(spark: SparkSession, location: String) {
  import spark.implicits._

  private val configuration = spark.sparkContext.hadoopConfiguration
  private val manifest = new Manifest(location, configuration)

  /** Write the points in files of about `objectSize` bytes. */
  def write(truth: Clusters, objectSize: Long): Unit = {
    manifest.withdraw()
    val bytes = truth.points * truth.dimensions * java.lang.Float.BYTES
    val files = math.min(truth.points, math.max(1, math.ceil(bytes.toDouble / objectSize).toLong)).toInt
    spark.sparkContext.setJobDescription(s"generate ${truth.points} points in $files files")
    val points = spark.range(0, truth.points, 1, files).as[Long].map(index => truth.point(index))
    points
      .toDF(PointFiles.Column)
      .write
      .mode(SaveMode.Overwrite)
      // Noise does not shrink: compressing it would only cost time, in every reading again.
      .option("compression", "uncompressed")
      .parquet(data)
    manifest.write(
      ListMap(
        "points" -> truth.points,
        "rows" -> truth.points,
        "dimensions" -> truth.dimensions,
        "clusters" -> truth.clusters,
        "seed" -> truth.seed,
        "object_size" -> objectSize,
        "bytes" -> bytes
      )
    )
  }

  /** The parameters of the generation. */
  def truth(): Clusters = manifest.read[Clusters]()

  def bytes: Long = DataFiles.bytes(data, configuration)

  /** The number of files. */
  def count: Long = DataFiles.under(data, configuration).size.toLong

  def points(dimensions: Int): org.apache.spark.rdd.RDD[PointBlock] =
    spark.read
      .parquet(data)
      .select(PointFiles.Column)
      .as[Array[Float]]
      .rdd
      .mapPartitions(PointBlock.blocks(_, dimensions))

  private def data = s"$location/points"
}

object PointFiles {
  private val Column = "point"
}

/**
 * `points` points in `dimensions` dimensions around `clusters` known centres: the truth that training is judged by.
 *
 * Point `i` belongs to centre `i mod clusters` and lies around it with a Gaussian deviation of 1 in every dimension. It
 * depends on `i` and `seed` alone, so the data is the same whatever number of tasks generates it.
 */
case class Clusters(points: Long, dimensions: Int, clusters: Int, seed: Long) {

  /**
   * No two centres are nearer than this. A point lies about √dimensions from its centre; with this distance, the points
   * of all centres that were found weigh less than a fiftieth of those of a single one that was not, when k-means++
   * draws its next centre by squared distance, whatever the number of clusters.
   */
  val separation: Double = 10 * math.sqrt(dimensions.toDouble * clusters)

  /** In a cube with room for each centre, drawn one after the other, those too near to an earlier one drawn again. */
  lazy val centres: Array[Array[Double]] = {
    val side = 2 * separation * math.ceil(math.pow(clusters, 1.0 / dimensions))
    val random = new SplittableRandom(seed)
    val placed = ArrayBuffer.empty[Array[Double]]
    while (placed.size < clusters) {
      val centre = Array.fill(dimensions)(random.nextDouble() * side)
      if (placed.forall(Distance.squared(_, centre) >= separation * separation)) placed += centre
    }
    placed.toArray
  }

  def clusterOf(point: Long): Int = (point % clusters).toInt

  /** The number of points of each centre. */
  def sizes: Array[Long] =
    Array.tabulate(clusters)(cluster => points / clusters + (if (cluster < points % clusters) 1 else 0))

  def point(index: Long): Array[Float] = {
    val centre = centres(clusterOf(index))
    val random = new SplittableRandom(Mixed(seed, index))
    Array.tabulate(dimensions)(dimension => (centre(dimension) + random.nextGaussian()).toFloat)
  }
}

object Distance {
  def squared(one: Array[Double], other: Array[Double]): Double = {
    var sum = 0.0
    var index = 0
    while (index < one.length) {
      val difference = one(index) - other(index)
      sum += difference * difference
      index += 1
    }
    sum
  }
}
