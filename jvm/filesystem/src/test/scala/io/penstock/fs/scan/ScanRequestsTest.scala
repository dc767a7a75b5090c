package io.penstock.fs.scan

import java.nio.file.Files

import org.apache.spark.SparkException
import org.apache.spark.sql.SparkSession
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.commit.CommittingSpark
import io.penstock.fs.testing.{Requests, Store}
import io.penstock.fs.{CacheSettings, PenstockFileSystem}

/** Which requests a query over Parquet sends, through Spark itself. */
class ScanRequestsTest extends AnyFunSuite with BeforeAndAfterAll {

  private val Partitions = 12

  private lazy val bucket = Store.newBucket()
  private lazy val table = bucket.path("table").toString
  private val tiers = Files.createTempDirectory("penstock-scan-")

  private lazy val spark: SparkSession = CommittingSpark.start(
    more = Map(
      "spark.sql.extensions" -> classOf[ScanExtension].getName,
      "spark.hadoop.fs.s3a.impl" -> classOf[PenstockFileSystem].getName,
      "spark.hadoop.fs.s3a.input.stream.type" -> "custom",
      "spark.hadoop.fs.s3a.input.stream.custom.factory" -> "io.penstock.fs.read.PageStreamFactory",
      s"spark.hadoop.${CacheSettings.MemoryDirectory}" -> tiers.resolve("memory").toString,
      s"spark.hadoop.${CacheSettings.DiskSize}" -> "0",
      s"spark.hadoop.${CacheSettings.WriteThrough}" -> "false"
    )
  )

  override def beforeAll(): Unit = {
    super.beforeAll()
    spark.range(0, 1200, 1, 1).selectExpr("id", "id % 12 AS day").write.partitionBy("day").parquet(table)
    // A version seen within two seconds of its modification is confirmed by a request.
    Thread.sleep(2500)
  }

  override def afterAll(): Unit =
    try spark.stop()
    finally super.afterAll()

  /** By a schema that is given: only the scan reads. A new relation each time, so that Spark's own listing is too. */
  private def sum(): Long =
    spark.read.schema("id BIGINT, day INT").parquet(table).selectExpr("sum(id)").head().getLong(0)

  test("a scan asks for each file's version once, in place of Spark's HEAD each time; a warm one sends nothing to it") {
    var answers = Seq.empty[Long]
    val cold = Requests.during { answers = answers :+ sum() }
    val warm = Requests.during { answers = answers :+ sum() }
    assert(answers.distinct == Seq((0L until 1200L).sum))
    assert(cold("GET") == 2 * Partitions)
    assert(!warm.contains("GET"))
    // What Spark asks of the table's directory before it lists it.
    assert(cold("HEAD") == 3 && warm("HEAD") == 3, s"$cold, $warm")
  }

  test("row indexes, file names and filters are Spark's own") {
    val rows = spark.read
      .schema("id BIGINT, day INT")
      .parquet(table)
      .where("id >= 1190 AND day < 8")
      .selectExpr("id", "day", "_metadata.row_index", "_metadata.file_path", "input_file_name()")
      .collect()
    assert(rows.map(_.getLong(0)).toSeq.sorted == (1190 until 1200).filter(_ % 12 < 8).map(_.toLong))
    assert(
      rows.forall(row => row.getString(3) == row.getString(4) && row.getString(3).contains(s"day=${row.getInt(1)}/"))
    )
    assert(rows.forall(row => row.getLong(2) == 99))
  }

  test("a file that is gone since it was listed fails as it does in Spark, with its name, unless its pages are here") {
    val frame = spark.read.schema("id BIGINT, day INT").parquet(table)
    assert(frame.inputFiles.length == Partitions)
    val lost = bucket.list("table/day=3/").head
    val content = bucket.get(lost).get
    bucket.delete(lost)
    try assert(frame.selectExpr("sum(id)").head().getLong(0) == (0L until 1200L).sum)
    finally bucket.put(lost, content)

    spark.range(10).write.parquet(bucket.path("unread").toString)
    val unread = spark.read.schema("id BIGINT").parquet(bucket.path("unread").toString)
    assert(unread.inputFiles.nonEmpty)
    bucket.list("unread/part-").foreach(bucket.delete)
    val told = intercept[SparkException](unread.selectExpr("sum(id)").head())
    assert(told.getCondition == "FAILED_READ_FILE.FILE_NOT_EXIST" && told.getMessage.contains("unread/part-"))
  }
}
