package io.penstock.workloads.kmeans

import scala.collection.immutable.ListMap

import org.apache.spark.sql.{SaveMode, SparkSession}

import io.penstock.workloads.{Application, Arguments, DataFiles, Manifest, Report}

/**
 * Writes points around known centres as Parquet, one array of floats a row.
 *
 * What is at `--location` is replaced. Generation that was cut short leaves no `_manifest.json`.
 */
object Generate extends Application {

  private val usage =
    "Generate --location URI --report URI [--points N] [--dimensions D] [--clusters K] [--seed S] [--object-size 64m]"
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

/** Points in the lake, and the manifest that says what they were generated from. */
class PointFiles(spark: SparkSession, location: String) {
  import spark.implicits._

  private val configuration = spark.sparkContext.hadoopConfiguration
  private val manifest = new Manifest(location, configuration)

  /** `objectSize` is what each file is to have, in bytes. */
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

  /** What the points were generated from. */
  def truth(): Clusters = manifest.read[Clusters]()

  def bytes: Long = DataFiles.bytes(data, configuration)

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
