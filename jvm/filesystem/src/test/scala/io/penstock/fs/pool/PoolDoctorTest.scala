package io.penstock.fs.pool

import java.io.IOException
import java.time.Duration

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.impl.AWSClientConfig
import org.apache.hadoop.fs.{FSDataInputStream, FileSystem}
import org.apache.hadoop.net.ConnectTimeoutException
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.Counters
import io.penstock.fs.testing.Store

/** S3A's own stream, a pool of two connections, and a program that does not close what it opens. */
class PoolDoctorTest extends AnyFunSuite with BeforeAndAfterAll {

  private lazy val bucket = Store.newBucket()
  private val length = 4 << 20

  // S3A waits 15 s for a connection at least, whatever it is told.
  override def beforeAll(): Unit = AWSClientConfig.setMinimumOperationDuration(Duration.ofMillis(100))
  override def afterAll(): Unit = AWSClientConfig.resetMinimumOperationDuration()

  /** @param patience how long a request waits for a connection */
  private def smallPool(patience: String = "60s"): Configuration = {
    val conf = Store.conf()
    conf.set("fs.s3a.audit.execution.interceptors", classOf[PoolDoctor].getName)
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

  test("the third of three streams left open is told which two hold the pool's two connections, and where from") {
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
