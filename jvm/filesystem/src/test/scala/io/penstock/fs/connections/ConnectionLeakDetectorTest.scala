package io.penstock.fs.connections

import java.io.IOException
import java.time.Duration

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.impl.AWSClientConfig
import org.apache.hadoop.fs.{FSDataInputStream, FileSystem}
import org.apache.hadoop.net.ConnectTimeoutException
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.metrics.Counters
import io.penstock.fs.testing.Store

/** S3A's own stream, a pool of two connections, and a program that does not close what it opens. */
class ConnectionLeakDetectorTest extends AnyFunSuite with BeforeAndAfterAll {

  private lazy val bucket = Store.newBucket()
  private val length = 4 << 20

  // S3A waits 15 s for a connection at least, whatever its settings.
  override def beforeAll(): Unit = AWSClientConfig.setMinimumOperationDuration(Duration.ofMillis(100))
  override def afterAll(): Unit = AWSClientConfig.resetMinimumOperationDuration()

  /** @param patience how long a request waits for a connection */
  private def smallPool(patience: String = "60s"): Configuration = {
    val conf = Store.conf()
    conf.set("fs.s3a.audit.execution.interceptors", classOf[ConnectionLeakDetector].getName)
    conf.set("fs.s3a.connection.maximum", "2")
    conf.set("fs.s3a.connection.acquisition.timeout", patience)
    conf.set("fs.s3a.attempts.maximum", "1")
    conf.set("fs.s3a.retry.limit", "1")
    // One request reads to the end of the object, so that it stays open.
    conf.set("fs.s3a.experimental.input.fadvise", "sequential")
    conf
  }

  /** Opened, read a little, and left: the response holds a connection. */
  private def leak(files: FileSystem, key: String): FSDataInputStream = {
    bucket.put(key, new Array[Byte](length))
    val stream = files.open(bucket.path(key))
    assert(stream.read() == 0)
    stream
  }

  test("the third of three streams left open learns which two hold the pool's two connections, and where from") {
    Using.resource(Store.fileSystem(bucket, smallPool(patience = "200ms"))) { files =>
      bucket.put("third", new Array[Byte](length))
      val (first, second) = (leak(files, "first"), leak(files, "second"))
      val problem = intercept[IOException](files.open(bucket.path("third")))
      // As without the doctor: what S3A retries by.
      assert(problem.isInstanceOf[ConnectTimeoutException])
      val said = problem.getMessage
      assert(said.contains("the pool has 2 (fs.s3a.connection.maximum), 2 are held by open streams"))
      assert(said.contains(bucket.path("first").toString) && said.contains(bucket.path("second").toString))
      assert(said.contains(s"by thread “${Thread.currentThread.getName}” at "))
      assert(said.contains("org.scalatest."), "the calls that are not plumbing")
      first.close()
      second.close()
    }
  }

  test("a stream that was closed, aborted or read to its end holds nothing") {
    Using.resource(Store.fileSystem(bucket, smallPool())) { files =>
      for (turn <- 1 to 4) {
        leak(files, s"closed-$turn").close()
        leak(files, s"unbuffered-$turn").unbuffer()
        assert(Using.resource(leak(files, s"read-$turn"))(_.readAllBytes()).length == length - 1)
      }
    }
  }

  test("what is received is counted, and no more than was read of a stream that is given up") {
    Using.resource(Store.fileSystem(bucket, smallPool())) { files =>
      bucket.put("counted", new Array[Byte](length))
      val before = Counters.BytesReceived.value
      Using.resource(files.open(bucket.path("counted")))(_.readAllBytes())
      assert(Counters.BytesReceived.value - before == length)
      Using.resource(files.open(bucket.path("counted")))(stream => assert(stream.read() == 0))
      assert(Counters.BytesReceived.value - before < length + (1 << 20))
    }
  }
}

class DiagnosisTest extends AnyFunSuite {

  private def held(path: String, sinceNs: Long, place: String*): OpenResponses.Held =
    new OpenResponses.Held(path, sinceNs, "worker-1", place)

  test("streams that hold the pool are named, oldest first, with how long, who and where") {
    val text = Diagnosis.of(
      maximum = 2,
      open = Seq(held("s3a://b/young", 4000000000L), held("s3a://b/old", 1000000000L, "app.Job.run(Job.scala:7)")),
      calls = 1,
      nowNs = 6000000000L
    )
    val lines = text.split("\n")
    assert(lines(0).contains("the pool has 2 (fs.s3a.connection.maximum), 2 are held by open streams, and 1 requests"))
    assert(lines(2) == "  s3a://b/old for 5.0 s by thread “worker-1” at app.Job.run(Job.scala:7)")
    assert(lines(3) == "  s3a://b/young for 2.0 s by thread “worker-1”")
    assert(lines.last.contains("Close each stream after use") && lines.last.contains("to 6 or more"))
  }

  test("a thousand open streams make a message of a dozen lines") {
    val text = Diagnosis.of(1000, (1 to 1000).map(i => held(s"s3a://b/$i", i)), 0, 2000)
    assert(text.split("\n").length == 14)
    assert(text.contains("… and 990 more"))
  }

  test("where streams are not the reason, closing them is not the advice") {
    val text = Diagnosis.of(8, Seq(held("s3a://b/k", 0)), calls = 20, nowNs = 1)
    assert(!text.contains("Close each stream"))
    assert(text.contains("to 42 or more, or lower fs.s3a.threads.max"))
  }

  test("the oldest is the oldest also when the clock has wrapped round") {
    val open = Seq(held("s3a://b/after", Long.MinValue + 5), held("s3a://b/before", Long.MaxValue - 5))
    val lines = Diagnosis.of(2, open, 0, Long.MinValue + 10).split("\n")
    assert(lines(2).contains("/before") && lines(3).contains("/after"))
  }
}
