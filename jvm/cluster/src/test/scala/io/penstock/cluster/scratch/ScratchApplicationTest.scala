package io.penstock.cluster.scratch

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.functions.{col, sum}
import org.scalatest.funsuite.AnyFunSuite

/** Applications of Spark's own, with a budget that does not suffice. */
class ScratchApplicationTest extends AnyFunSuite {

  private val Rows = 400000L

  private case class Outcome(memoryBytes: Long, diskBytes: Long, fellOver: String)

  private def field(json: String, name: String): String =
    s""""$name":"?([^",}]*)"?""".r.findFirstMatchIn(json).get.group(1)

  private def files(directory: Path): Seq[Path] =
    Using.resource(Files.walk(directory))(_.iterator.asScala.filter(Files.isRegularFile(_)).toVector)

  private def within(master: String, budget: String)(work: (SparkSession, Path) => Unit): Outcome = {
    val root = Files.createTempDirectory("scratch-application")
    val memory = root.resolve("memory")
    val spark = SparkSession
      .builder()
      .master(master)
      .config("spark.ui.enabled", "false")
      .config("spark.local.dir", root.resolve("disk").toString)
      .config("spark.plugins", "io.penstock.cluster.ScratchPlugin")
      .config("spark.penstock.directory", root.toString)
      .config("spark.penstock.scratch.directory", memory.toString)
      .config("spark.penstock.scratch.memory", budget)
      .config("spark.sql.shuffle.partitions", "4")
      .config("spark.default.parallelism", "4")
      .config("spark.task.maxFailures", "1")
      .getOrCreate()
    try work(spark, memory)
    finally spark.stop()
    val json = Files.readString(root.resolve("scratch.json"))
    Outcome(field(json, "memory_bytes").toLong, field(json, "disk_bytes").toLong, field(json, "fell_over"))
  }

  private def sorted(spark: SparkSession): Unit = {
    val numbers = spark.range(0, Rows, 1, 8).select((col("id") * 7919 % Rows).as("n"), col("id").cast("string").as("s"))
    val seen = numbers.repartition(4, col("s")).sort("n").select("n").collect().map(_.getLong(0))
    assert(seen.sameElements(Iterator.range(0, Rows.toInt).map(_.toLong)))
  }

  test("a budget that lasts: everything is in memory") {
    val outcome = within("local[2]", "1g") { (spark, memory) =>
      sorted(spark)
      assert(files(memory).exists(_.getFileName.toString.endsWith(".data")))
    }
    assert(outcome.memoryBytes > Rows && outcome.diskBytes == 0 && outcome.fellOver.isEmpty)
  }

  test("a budget that is used up: the rest is on disk, the result is right, no task fails") {
    val outcome = within("local[2]", "3m")((spark, _) => sorted(spark))
    assert(outcome.memoryBytes > 0 && outcome.diskBytes > 0)
    assert(outcome.fellOver == "its budget was used up")
  }

  test("spills of sorts and aggregations use both media, with either shuffle writer") {
    for (elements <- Seq("2000", "20000")) {
      val outcome = within("local[2]", "2m") { (spark, _) =>
        spark.conf.set("spark.sql.windowExec.buffer.spill.threshold", elements)
        val pairs = spark.sparkContext.parallelize(0 until 60000, 4).map(n => (n % 30000, n.toLong))
        val sums = pairs.repartitionAndSortWithinPartitions(new org.apache.spark.HashPartitioner(3)).reduceByKey(_ + _)
        assert(sums.values.map(_.toDouble).sum() == 60000.0 * 59999 / 2)
        val total = spark.range(100000).groupBy((col("id") % 50000).as("k")).agg(sum("id").as("t")).agg(sum("t"))
        assert(total.collect().head.getLong(0) == 100000L * 99999 / 2)
      }
      assert(outcome.memoryBytes > 0)
    }
  }

  test("a task's only spill, which becomes its map output, counts and frees the room that was set aside for it") {
    // Enough for the outputs, their offsets and check sums, and one spill at a time, but not for the spills of all.
    var present = 0L
    val outcome = within("local[1]", "13m") { (spark, memory) =>
      val pairs = spark.sparkContext.parallelize(0 until 12000, 12).map(n => (n, n))
      val serialised = new org.apache.spark.HashPartitioner(300)
      val shuffled = new org.apache.spark.rdd.ShuffledRDD[Int, Int, Int](pairs, serialised)
        .setSerializer(new org.apache.spark.serializer.KryoSerializer(spark.sparkContext.getConf))
      assert(shuffled.count() == 12000)
      present = files(memory).map(Files.size).sum
    }
    assert(outcome == Outcome(present, 0, ""))
  }

  test("a memory directory that cannot be used: everything is on disk, and no task fails") {
    val outcome = within("local[2]", "1g") { (spark, memory) =>
      Using.resource(Files.walk(memory))(_.iterator.asScala.toVector.reverse.foreach(Files.delete))
      Files.write(memory, Array[Byte](1))
      sorted(spark)
    }
    assert(outcome.memoryBytes == 0 && outcome.diskBytes > 0)
    assert(outcome.fellOver.contains("cannot be written"))
  }

  test("blocks that the application keeps on disk stay there") {
    within("local[2]", "1g") { (spark, memory) =>
      import org.apache.spark.storage.StorageLevel.DISK_ONLY
      val kept = spark.sparkContext.parallelize(0 until 1000, 2).persist(DISK_ONLY)
      assert(kept.sum() == 499500.0 && kept.sum() == 499500.0)
      assert(files(memory).isEmpty)
    }
  }

  test("shuffles that nobody needs any more give memory back") {
    within("local[2]", "64m") { (spark, memory) =>
      val counts = spark.sparkContext.parallelize(0 until 100000, 4).map(n => (n, n)).reduceByKey(_ + _)
      assert(counts.count() == 100000)
      assert(files(memory).nonEmpty)
      counts.cleanShuffleDependencies(blocking = true)
      assert(files(memory).isEmpty)
    }
  }
}
