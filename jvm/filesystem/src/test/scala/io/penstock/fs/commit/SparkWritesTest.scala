package io.penstock.fs.commit

import scala.jdk.CollectionConverters._

import org.apache.spark.TaskContext
import org.apache.spark.sql.functions.{col, udf}
import org.apache.spark.sql.{DataFrame, SparkSession}
import org.scalatest.BeforeAndAfterAll
import org.scalatest.concurrent.Eventually._
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.SpanSugar._

import io.penstock.fs.PenstockFileSystem
import io.penstock.fs.metrics.Counters
import io.penstock.fs.testing.Store

/** Spark's writes, by the class that commits them. */
class SparkWritesTest extends SparkWrites(Map.empty)

/** The same where tasks end before their files are uploaded. */
class SparkWritesBehindTest extends SparkWrites(CommittingSpark.Behind) {

  test("files are closed behind their tasks") {
    val before = Counters.FilesClosedBehind.value
    rows(0, 5).write.parquet(path("behind"))
    assert(Counters.FilesClosedBehind.value == before + 2)
    assertClean("behind")
  }
}

abstract class SparkWrites(settings: Map[String, String]) extends AnyFunSuite with BeforeAndAfterAll {

  private lazy val bucket = Store.newBucket()
  private lazy val other = Store.newBucket()
  private lazy val spark: SparkSession = CommittingSpark.start(more = settings)

  override def afterAll(): Unit = spark.stop()

  import SparkWrites._

  protected def rows(from: Int, to: Int): DataFrame =
    spark.range(from, to, 1, 2).selectExpr("id", "id % 3 as part")

  private def ids(table: String): Seq[Long] =
    spark.read.parquet(path(table)).select("id").collect().map(_.getLong(0)).toSeq.sorted

  protected def path(table: String): String = bucket.path(table).toString

  /** The table's commit log at rest, and no trace of how it came about. */
  protected def assertClean(table: String): Unit = {
    assert(bucket.pendingUploads().isEmpty)
    val keys = bucket.list(table + "/")
    assert(keys.filter(_.contains("__magic")).isEmpty)
    val commitLog = keys.filter(_.contains(CommitLog.Directory))
    assert(commitLog.size == 1)
    assert(bucket.get(commitLog.head).exists(_.isEmpty))
  }

  test("appends add up") {
    rows(0, 5).write.parquet(path("appended"))
    rows(5, 9).write.mode("append").parquet(path("appended"))
    assert(ids("appended") == (0L until 9L))
    assertClean("appended")
  }

  test("files are named as Hadoop's setting of their base name says") {
    rows(0, 5).write.option("mapreduce.output.basename", "day").parquet(path("named"))
    val names = dataFiles(bucket.list("named/")).map(_.stripPrefix("named/"))
    assert(names.nonEmpty && names.forall(_.startsWith("day-0000")), names)
    assert(ids("named") == (0L until 5L))
  }

  test("an overwrite replaces everything, and the files of the table are the new job's only") {
    rows(0, 5).write.parquet(path("replaced"))
    val before = dataFiles(bucket.list("replaced/"))
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "static")
    try rows(5, 9).write.mode("overwrite").parquet(path("replaced"))
    finally spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    assert(ids("replaced") == (5L until 9L))
    assert(before.intersect(bucket.list("replaced/")).isEmpty)
    assertClean("replaced")
  }

  test("a dynamic partition overwrite replaces the partitions it writes to, and no other") {
    rows(0, 9).write.partitionBy("part").parquet(path("partitioned"))
    val untouched = bucket.list("partitioned/part=0/")
    rows(100, 110).filter("part <> 0").write.mode("overwrite").partitionBy("part").parquet(path("partitioned"))
    assert(ids("partitioned") == (Seq(0L, 3L, 6L) ++ (100L until 110L).filter(_ % 3 != 0)))
    assert(bucket.list("partitioned/part=0/") == untouched)
    assertClean("partitioned")
  }

  test("an overwrite that names the version it has read is refused where the table has another by now") {
    def overwrite(version: Long): Unit =
      rows(0, 3).write.mode("overwrite").option(TableVersion.Expected, version.toString).parquet(path("versioned"))
    def version: Long = TableVersion.of(bucket.path("versioned"), spark.sparkContext.hadoopConfiguration)
    rows(5, 9).write.parquet(path("versioned"))
    val read = version
    rows(9, 12).write.mode("append").parquet(path("versioned"))
    val refused = intercept[Exception](overwrite(read))
    assert(Iterator.iterate[Throwable](refused)(_.getCause).takeWhile(_ != null).exists(_.isInstanceOf[TableChanged]))
    assert(ids("versioned") == (5L until 12L))
    overwrite(version)
    assert(ids("versioned") == (0L until 3L))
    assertClean("versioned")
  }

  for (format <- Seq("parquet", "orc", "csv", "json"))
    test(s"a dynamic overwrite of $format replaces what it writes to") {
      val table = s"format-$format"
      rows(0, 6).write.partitionBy("part").format(format).save(path(table))
      rows(100, 103).filter("part = 1").write.mode("overwrite").partitionBy("part").format(format).save(path(table))
      assert(spark.read.format(format).load(path(table)).count() == 5)
      assertClean(table)
    }

  /** The rows, from tasks of which one fails in its first `failures` attempts, after it has begun to write. */
  private def failing(failures: Int): DataFrame = {
    val failOnce = udf { id: Long =>
      if (id == 7 && TaskContext.get().attemptNumber() < failures)
        throw new IllegalStateException("a failure on purpose")
      id
    }
    spark.range(0, 9, 1, 2).select(failOnce(col("id")).as("id"), (col("id") % 3).as("part"))
  }

  test("a task that fails once leaves nothing of its first attempt") {
    failing(1).write.option("maxRecordsPerFile", 1).parquet(path("retried"))
    assert(ids("retried") == (0L until 9L))
    assert(dataFiles(bucket.list("retried/")).size == 9)
    assertClean("retried")
  }

  for (mode <- Seq("static", "dynamic"))
    test(s"an overwrite ($mode) whose task fails for good has deleted nothing and leaves nothing") {
      val table = s"failed-$mode"
      rows(0, 9).write.partitionBy("part").parquet(path(table))
      val before = bucket.list(table + "/")
      intercept[Exception] {
        failing(9).write
          .option("partitionOverwriteMode", mode)
          .option("maxRecordsPerFile", 1)
          .mode("overwrite")
          .partitionBy("part")
          .parquet(path(table))
      }
      assert(bucket.list(table + "/") == before)
      assert(ids(table) == (0L until 9L))
      // Tasks beside the one that failed abort their own uploads when they hear that the job is over.
      eventually(timeout(60.seconds))(assertClean(table))
    }

  test("a partition with a location of its own is replaced where it is") {
    rows(0, 9).write.partitionBy("part").option("path", path("located")).saveAsTable("located")
    spark.sql(s"ALTER TABLE located ADD PARTITION (part = 7) LOCATION '${path("elsewhere")}'")
    for (id <- Seq(70, 71)) spark.sql(s"INSERT OVERWRITE located PARTITION (part) SELECT $id, 7")
    assert(spark.sql("SELECT id FROM located WHERE part = 7").collect().map(_.getLong(0)).toSeq == Seq(71L))
    assert(dataFiles(bucket.list("elsewhere/")).size == 1)
    assert(spark.table("located").count() == 10)
    assertClean("located")
  }

  test("S3A that keeps no uploads in memory is refused before any work") {
    val without = spark.newSession()
    val setting = "fs.s3a.bucket." + other.name + ".committer.magic.track.commits.in.memory.enabled"
    spark.sparkContext.hadoopConfiguration.set(setting, "false")
    val refused = intercept[Exception](without.range(3).write.parquet(other.path("t").toString))
    assert(
      Iterator.iterate[Throwable](refused)(_.getCause).takeWhile(_ != null).exists(_.getMessage.contains("in.memory"))
    )
    assert(other.list().isEmpty)
  }
}

object SparkWrites {
  private def dataFiles(keys: Seq[String]): Seq[String] = keys.filterNot(_.split('/').exists(_.startsWith("_")))
}

/** Spark in this JVM, writing to the tests' store as a user's Spark does. */
object CommittingSpark {

  val Behind: Map[String, String] = Map(
    "spark.plugins" -> classOf[CommitPlugin].getName,
    s"spark.hadoop.${WriteBehind.Size}" -> "64m",
    "spark.hadoop.fs.s3a.impl" -> classOf[PenstockFileSystem].getName
  )

  def settings(protocol: Class[_ <: AtomicCommitProtocol]): Map[String, String] =
    Store
      .conf()
      .asScala
      .iterator
      .map(e => e.getKey -> e.getValue)
      .filter(_._1.startsWith("fs.s3a."))
      .map { case (name, value) =>
        s"spark.hadoop.$name" -> value
      }
      .toMap ++ Map(
      "spark.sql.sources.commitProtocolClass" -> protocol.getName,
      "spark.sql.sources.partitionOverwriteMode" -> "dynamic",
      "spark.hadoop.fs.s3a.committer.magic.track.commits.in.memory.enabled" -> "true",
      s"spark.hadoop.${JobOutput.Patience}" -> "200ms",
      "spark.ui.enabled" -> "false",
      "spark.sql.shuffle.partitions" -> "2",
      "spark.sql.sources.parallelPartitionDiscovery.threshold" -> "1000",
      "spark.sql.catalogImplementation" -> "in-memory"
    )

  def start(
      master: String = "local[2, 2]",
      more: Map[String, String] = Map.empty,
      protocol: Class[_ <: AtomicCommitProtocol] = classOf[AtomicCommitProtocol]
  ): SparkSession = {
    val builder = SparkSession.builder().master(master).appName("commits")
    (settings(protocol) ++ more).foreach { case (name, value) => builder.config(name, value) }
    builder.getOrCreate()
  }
}
