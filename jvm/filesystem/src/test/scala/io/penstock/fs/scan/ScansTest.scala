package io.penstock.fs.scan

import java.io.{EOFException, FileNotFoundException, IOException, InterruptedIOException}
import java.net.InetSocketAddress
import java.nio.file.Files

import org.apache.hadoop.fs.Path
import org.apache.parquet.io.ParquetDecodingException
import org.apache.spark.SparkException
import org.apache.spark.sql.SparkSession
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.faults.{Fault, FaultyGateway}
import io.penstock.fs.PenstockFileSystem
import io.penstock.fs.cache.CacheSettings
import io.penstock.fs.commit.CommittingSpark
import io.penstock.fs.testing.{Requests, Store}

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
      // By default, measured times decide what is kept.
      s"spark.hadoop.${CacheSettings.Admission}" -> "always",
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
    // What Spark asks of the table's directory before it lists it is answered by listings.
    assert(!cold.contains("HEAD") && !warm.contains("HEAD"), s"$cold, $warm")
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
    val failed = intercept[SparkException](unread.selectExpr("sum(id)").head())
    assert(failed.getCondition == "FAILED_READ_FILE.FILE_NOT_EXIST" && failed.getMessage.contains("unread/part-"))
  }
}

/** A page of a large file whose bytes were damaged on their way into the cache, where http tells nobody. */
class DamagedPageTest extends AnyFunSuite with BeforeAndAfterAll {

  private val Rows = 200000
  private val Large = 1 << 20
  private val PageSize = 64 << 10

  private lazy val bucket = Store.newBucket()
  private lazy val gateway = new FaultyGateway(new InetSocketAddress(Store.endpoint.getHost, Store.endpoint.getPort))

  private lazy val spark: SparkSession = CommittingSpark.start(
    more = Map(
      "spark.plugins" -> classOf[DamagedFilePlugin].getName,
      "spark.hadoop.fs.s3a.endpoint" -> gateway.endpoint,
      "spark.hadoop.fs.s3a.impl" -> classOf[PenstockFileSystem].getName,
      "spark.hadoop.fs.s3a.input.stream.type" -> "custom",
      "spark.hadoop.fs.s3a.input.stream.custom.factory" -> "io.penstock.fs.read.PageStreamFactory",
      "spark.hadoop.parquet.page.verify-checksum.enabled" -> "true",
      s"spark.hadoop.${CacheSettings.PageSize}" -> PageSize.toString,
      s"spark.hadoop.${CacheSettings.Admission}" -> "always",
      s"spark.hadoop.${CacheSettings.MemoryDirectory}" -> Files.createTempDirectory("penstock-damaged-").toString,
      s"spark.hadoop.${CacheSettings.MemorySize}" -> "100M",
      s"spark.hadoop.${CacheSettings.DiskSize}" -> "0",
      s"spark.hadoop.${CacheSettings.WriteThrough}" -> "false"
    )
  )

  override def afterAll(): Unit =
    try spark.stop()
    finally {
      gateway.close()
      super.afterAll()
    }

  private def sum(table: String): Long =
    spark.read.schema("id BIGINT, noise DOUBLE").parquet(table).selectExpr("sum(id)", "sum(noise)").head().getLong(0)

  private def bytes(range: String): Long = {
    val bounds = range.stripPrefix("bytes=").split('-').map(_.toLong)
    bounds(1) - bounds(0) + 1
  }

  test("a page that arrived damaged is not read again by the task's next attempt, nor by any later query") {
    val table = bucket.path("table").toString
    spark.range(0, Rows, 1, 1).selectExpr("id", "rand(1) AS noise").write.parquet(table)
    assert(bucket.get(bucket.list("table/part-").head).exists(_.length > Large))
    gateway.clear()
    gateway.inject(Fault.Flip(Large / 2))(request => request.method == "GET" && request.range.exists(bytes(_) > Large))

    assert(sum(table) == (0L until Rows.toLong).sum)
    def large = gateway.requests.flatMap(_.range).count(bytes(_) > Large)
    assert(large == 2, "damaged, and sound")
    assert(sum(table) == (0L until Rows.toLong).sum)
    assert(large == 2, "the sound one is kept")
  }

  test("a damaged footer fails neither the query that infers its schema from it, nor one that reads the file later") {
    val table = bucket.path("inferred").toString
    spark.range(0, Rows, 1, 1).selectExpr("id", "rand(1) AS noise").write.parquet(table)
    val file = bucket.list("inferred/part-").head
    val length = bucket.get(file).get.length
    val tail = (length - PageSize) / PageSize * PageSize
    gateway.clear()
    def tails = gateway.requests.flatMap(_.range).count(_ == s"bytes=$tail-${length - 1}")
    gateway.inject(Fault.Flip(length - 1L - tail))(_.range.contains(s"bytes=$tail-${length - 1}"))

    assert(spark.read.parquet(table).schema.fieldNames.toSeq == Seq("id", "noise"))
    assert(tails == 2, "damaged, and sound")
    assert(sum(table) == (0L until Rows.toLong).sum)
    assert(tails == 2, "the sound one is kept")
  }

  test("so it is with every format whose reader notices: compressed text") {
    val table = bucket.path("with space/text").toString
    spark.range(0, Rows, 1, 1).selectExpr("id", "rand(1) AS noise").write.option("compression", "gzip").csv(table)
    gateway.clear()
    gateway.inject(Fault.Flip(1000))(request => request.method == "GET" && request.range.exists(bytes(_) >= PageSize))
    def read = spark.read.schema("id BIGINT, noise DOUBLE").csv(table).selectExpr("sum(id)", "sum(noise)").head()
    assert(read.getLong(0) == (0L until Rows.toLong).sum)
    val fetched = gateway.requests.flatMap(_.range).size
    assert(read.getLong(0) == (0L until Rows.toLong).sum)
    assert(gateway.requests.flatMap(_.range).size == fetched, "the sound bytes are kept")
  }

  private def unread(condition: String, path: String, cause: Throwable): Throwable =
    new SparkException(condition, Map("path" -> path), cause)

  private val Footer = "FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER"
  private val Rest = "FAILED_READ_FILE.NO_HINT"

  test("whatever a reader makes of wrong bytes is a reason to forget the file, however deep it is reported") {
    val failures = Seq(
      new ParquetDecodingException("could not verify page integrity, CRC checksum verification failed"),
      new IOException("can not read class org.apache.parquet.format.PageHeader"),
      new EOFException,
      new NegativeArraySizeException
    )
    for (condition <- Seq(Footer, Rest); failure <- failures) {
      val failed = new RuntimeException("awaited", unread(condition, "s3a://lake/file", failure))
      assert(DamagedFilePlugin.namedIn(failed) == Seq(new Path("s3a://lake/file")), failed.getCause)
    }
  }

  test("a scan tells the URL, a footer's reader the path: what may be meant is both") {
    val named = DamagedFilePlugin.namedIn(unread(Rest, "s3a://lake/a%20b/file", new EOFException))
    assert(named == Seq(new Path("s3a://lake/a b/file"), new Path("s3a://lake/a%20b/file")))
    val path = DamagedFilePlugin.namedIn(unread(Footer, "s3a://lake/a b/file", new EOFException))
    assert(path == Seq(new Path("s3a://lake/a b/file")))
  }

  test("a file that is not there, a task that is to end, and the user's own mistakes say nothing of the bytes") {
    assert(DamagedFilePlugin.namedIn(unread(Rest, "s3a://lake/file", new FileNotFoundException)).isEmpty)
    assert(DamagedFilePlugin.namedIn(unread(Rest, "s3a://lake/file", new InterruptedIOException)).isEmpty)
    assert(DamagedFilePlugin.namedIn(unread("FAILED_READ_FILE.FILE_NOT_EXIST", "s3a://lake/file", null)).isEmpty)
    assert(DamagedFilePlugin.namedIn(new ArithmeticException("/ by zero")).isEmpty)
  }
}
