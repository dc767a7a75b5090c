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

import io.penstock.fs.commit.CommittingSpark
import io.penstock.fs.testing.{Fault, FaultyGateway, Store}
import io.penstock.fs.{CacheSettings, PenstockFileSystem}

/** A page of a large file whose bytes were damaged on their way into the cache, where http tells nobody. */
class DamagedPageTest extends AnyFunSuite with BeforeAndAfterAll {

  private val Rows = 200000
  private val Large = 1 << 20
  private val PageSize = 64 << 10

  private lazy val bucket = Store.newBucket()
  private lazy val gateway = new FaultyGateway(new InetSocketAddress(Store.endpoint.getHost, Store.endpoint.getPort))

  private lazy val spark: SparkSession = CommittingSpark.start(
    more = Map(
      "spark.plugins" -> classOf[UnreadableFiles].getName,
      "spark.hadoop.fs.s3a.endpoint" -> gateway.endpoint,
      "spark.hadoop.fs.s3a.impl" -> classOf[PenstockFileSystem].getName,
      "spark.hadoop.fs.s3a.input.stream.type" -> "custom",
      "spark.hadoop.fs.s3a.input.stream.custom.factory" -> "io.penstock.fs.read.PageStreamFactory",
      "spark.hadoop.parquet.page.verify-checksum.enabled" -> "true",
      s"spark.hadoop.${CacheSettings.PageSize}" -> PageSize.toString,
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

  test("whatever a reader makes of wrong bytes is a reason to forget the file, however deep it is told") {
    val failures = Seq(
      new ParquetDecodingException("could not verify page integrity, CRC checksum verification failed"),
      new IOException("can not read class org.apache.parquet.format.PageHeader"),
      new EOFException,
      new NegativeArraySizeException
    )
    for (condition <- Seq(Footer, Rest); failure <- failures) {
      val told = new RuntimeException("awaited", unread(condition, "s3a://lake/file", failure))
      assert(UnreadableFiles.namedIn(told) == Seq(new Path("s3a://lake/file")), told.getCause)
    }
  }

  test("a scan tells the URL, a footer's reader the path: what may be meant is both") {
    val named = UnreadableFiles.namedIn(unread(Rest, "s3a://lake/a%20b/file", new EOFException))
    assert(named == Seq(new Path("s3a://lake/a b/file"), new Path("s3a://lake/a%20b/file")))
    val path = UnreadableFiles.namedIn(unread(Footer, "s3a://lake/a b/file", new EOFException))
    assert(path == Seq(new Path("s3a://lake/a b/file")))
  }

  test("a file that is not there, a task that is told to end, and the user's own mistakes say nothing of the bytes") {
    assert(UnreadableFiles.namedIn(unread(Rest, "s3a://lake/file", new FileNotFoundException)).isEmpty)
    assert(UnreadableFiles.namedIn(unread(Rest, "s3a://lake/file", new InterruptedIOException)).isEmpty)
    assert(UnreadableFiles.namedIn(unread("FAILED_READ_FILE.FILE_NOT_EXIST", "s3a://lake/file", null)).isEmpty)
    assert(UnreadableFiles.namedIn(new ArithmeticException("/ by zero")).isEmpty)
  }
}
