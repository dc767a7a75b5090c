package io.penstock.fs.metrics

import java.io.InputStream
import java.net.URI
import java.util.Optional
import java.util.concurrent.{Executors, TimeUnit}

import com.codahale.metrics.MetricRegistry
import org.scalatest.funsuite.AnyFunSuite
import software.amazon.awssdk.core.SdkRequest
import software.amazon.awssdk.core.async.AsyncRequestBody
import software.amazon.awssdk.core.interceptor.{Context, ExecutionAttributes}
import software.amazon.awssdk.core.sync.RequestBody
import software.amazon.awssdk.http.{SdkHttpMethod, SdkHttpRequest, SdkHttpResponse}

class RequestCounterTest extends AnyFunSuite {
  import RequestCounterTest._

  /** In milliseconds; goes on when a test says so. */
  @volatile private var now = 0L
  private val counter = new RequestCounter(() => TimeUnit.MILLISECONDS.toNanos(now))

  /** One attempt of the call that `call` identifies, answered with `status` after `delayMs`, or never. */
  private def attempt(
      method: String,
      address: String,
      call: ExecutionAttributes = new ExecutionAttributes,
      body: Option[Int] = None,
      status: Option[Int] = Some(200),
      delayMs: Long = 0
  ): Unit = {
    val request = SdkHttpRequest.builder().method(SdkHttpMethod.fromValue(method)).uri(URI.create(address))
    body.foreach(length => request.putHeader("Content-Length", length.toString))
    val exchange = new Exchange(request.build(), status.getOrElse(0))
    counter.beforeTransmission(exchange, call)
    now += delayMs
    if (status.isDefined) counter.afterTransmission(exchange, call)
  }

  /** The counts that `work` added. Their times are left out: they are checked where they matter. */
  private def counted(work: => Unit): Map[String, Long] =
    added(work).filter { case (name, _) => !name.startsWith("request_us") && !name.startsWith("answered") }

  private def added(work: => Unit): Map[String, Long] = {
    val before = Counters.now()
    work
    Counters.now().map { case (name, value) => name -> (value - before(name)) }.filter(_._2 != 0)
  }

  test("each method is counted under its own name") {
    val counts = counted {
      for (method <- Seq("GET", "HEAD", "PUT", "POST", "DELETE")) attempt(method, "http://127.0.0.1:1/bucket/key")
    }
    assert(counts == Seq("get", "head", "put", "post", "delete").map(kind => s"requests_$kind" -> 1L).toMap)
  }

  test("listing objects or uploads is LIST, reading one object is not, in path and virtual-host style") {
    val counts = counted {
      attempt("GET", "http://127.0.0.1:1/bucket?list-type=2&prefix=a%2F&delimiter=%2F")
      attempt("GET", "http://bucket.s3.example.com/?uploads")
      attempt("GET", "http://bucket.s3.example.com/?prefix=a&max-keys=5")
      attempt("GET", "http://bucket.s3.example.com/list-type")
      attempt("GET", "http://127.0.0.1:1/bucket/key?versionId=3")
    }
    assert(counts == Map("requests_list" -> 3, "requests_get" -> 2))
  }

  test("every attempt is a request, all but a call's first are retries, bodies are sent each time") {
    val call = new ExecutionAttributes
    val counts = counted {
      (1 to 3).foreach(_ => attempt("PUT", "http://127.0.0.1:1/bucket/key", call, body = Some(1000)))
      attempt("PUT", "http://127.0.0.1:1/bucket/key", body = Some(24))
    }
    assert(counts == Map("requests_put" -> 4, "request_retries" -> 2, "bytes_sent" -> 3024))
  }

  test("a store that asks for patience is distinguished from one that fails, and neither from what is not there") {
    val counts = counted {
      for (status <- Seq(503, 429, 503, 500, 502, 404, 206))
        attempt("GET", "http://127.0.0.1:1/bucket/key", status = Some(status))
    }
    assert(counts == Map("requests_get" -> 7, "answers_throttled" -> 3, "answers_failed" -> 2))
  }

  test("an answer's time is its attempt's own, and an attempt nobody answered has none") {
    val call = new ExecutionAttributes
    val counts = added {
      attempt("GET", "http://127.0.0.1:1/bucket/key", call, status = None, delayMs = 400)
      attempt("GET", "http://127.0.0.1:1/bucket/key", call, delayMs = 5)
      attempt("HEAD", "http://127.0.0.1:1/bucket/key")
    }
    assert(counts.filter(_._1.startsWith("request_us")) == Map("request_us_get" -> 5000))
    assert(
      counts.filter(_._1.startsWith("answered")) == Map("answered_within_1_ms" -> 1, "answered_within_16_ms" -> 1)
    )
  }

  test("nothing is lost when many threads count at once") {
    val threads = Executors.newFixedThreadPool(8)
    val counts = counted {
      (1 to 8).foreach(_ => threads.execute(() => (1 to 1000).foreach(_ => attempt("HEAD", "http://127.0.0.1:1/b/k"))))
      threads.shutdown()
      assert(threads.awaitTermination(30, TimeUnit.SECONDS))
    }
    assert(counts == Map("requests_head" -> 8000))
  }
}

private object RequestCounterTest {

  final private class Exchange(sent: SdkHttpRequest, status: Int)
      extends Context.BeforeTransmission
      with Context.AfterTransmission {
    override def httpRequest(): SdkHttpRequest = sent
    override def requestBody(): Optional[RequestBody] = Optional.empty()
    override def asyncRequestBody(): Optional[AsyncRequestBody] = Optional.empty()
    override def request(): SdkRequest = null
    override def httpResponse(): SdkHttpResponse = SdkHttpResponse.builder().statusCode(status).build()
    override def responseBody(): Optional[InputStream] = Optional.empty()
    override def responsePublisher(): Optional[org.reactivestreams.Publisher[java.nio.ByteBuffer]] = Optional.empty()
  }
}

class LakeMetricsTest extends AnyFunSuite {

  test("every counter is a gauge of its name that shows what it is now, not what it was when it was registered") {
    val registry = new MetricRegistry
    LakeMetrics.register(registry)
    val shown = registry.getGauges
    assert(shown.size == Counters.All.size)
    val before = shown.get("bytes_from_disk").getValue.asInstanceOf[Long]
    Counters.BytesFromDisk.add(5)
    assert(shown.get("bytes_from_disk").getValue == before + 5)
  }
}
