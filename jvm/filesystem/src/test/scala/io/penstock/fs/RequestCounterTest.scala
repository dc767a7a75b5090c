package io.penstock.fs

import java.net.URI
import java.util.Optional
import java.util.concurrent.{Executors, TimeUnit}

import org.scalatest.funsuite.AnyFunSuite
import software.amazon.awssdk.core.SdkRequest
import software.amazon.awssdk.core.async.AsyncRequestBody
import software.amazon.awssdk.core.interceptor.{Context, ExecutionAttributes}
import software.amazon.awssdk.core.sync.RequestBody
import software.amazon.awssdk.http.{SdkHttpMethod, SdkHttpRequest}

class RequestCounterTest extends AnyFunSuite {

  private val counter = new RequestCounter

  private def request(method: String, address: String): SdkHttpRequest =
    SdkHttpRequest.builder().method(SdkHttpMethod.fromValue(method)).uri(URI.create(address)).build()

  /** One attempt of the call that `call` identifies. */
  private def attempt(method: String, address: String, call: ExecutionAttributes = new ExecutionAttributes): Unit =
    counter.beforeTransmission(new RequestCounterTest.Transmission(request(method, address)), call)

  private def counted(work: => Unit): (Map[String, Long], Long) = {
    val before = RequestCounts.now()
    work
    val after = RequestCounts.now()
    val difference = after.requests.zip(before.requests).map { case (a, b) => a - b }
    (RequestCounts.Kinds.zip(difference).filter(_._2 != 0).toMap, after.retries - before.retries)
  }

  test("each method is counted under its own name") {
    val (counts, retries) = counted {
      for (method <- Seq("GET", "HEAD", "PUT", "POST", "DELETE")) attempt(method, "http://127.0.0.1:1/bucket/key")
    }
    assert(counts == Map("GET" -> 1, "HEAD" -> 1, "PUT" -> 1, "POST" -> 1, "DELETE" -> 1))
    assert(retries == 0)
  }

  test("listing objects or uploads is LIST, reading one object is not, in path and virtual-host style") {
    val (counts, _) = counted {
      attempt("GET", "http://127.0.0.1:1/bucket?list-type=2&prefix=a%2F&delimiter=%2F")
      attempt("GET", "http://bucket.s3.example.com/?uploads")
      attempt("GET", "http://bucket.s3.example.com/?prefix=a&max-keys=5")
      attempt("GET", "http://bucket.s3.example.com/list-type")
      attempt("GET", "http://127.0.0.1:1/bucket/key?versionId=3")
    }
    assert(counts == Map("LIST" -> 3, "GET" -> 2))
  }

  test("every attempt is a request, all but a call's first are retries") {
    val call = new ExecutionAttributes
    val (counts, retries) = counted {
      (1 to 3).foreach(_ => attempt("GET", "http://127.0.0.1:1/bucket/key", call))
      attempt("GET", "http://127.0.0.1:1/bucket/key")
    }
    assert(counts == Map("GET" -> 4))
    assert(retries == 2)
  }

  test("nothing is lost when many threads count at once") {
    val threads = Executors.newFixedThreadPool(8)
    val (counts, _) = counted {
      (1 to 8).foreach(_ => threads.execute(() => (1 to 1000).foreach(_ => attempt("HEAD", "http://127.0.0.1:1/b/k"))))
      threads.shutdown()
      assert(threads.awaitTermination(30, TimeUnit.SECONDS))
    }
    assert(counts == Map("HEAD" -> 8000))
  }
}

private object RequestCounterTest {

  final private class Transmission(sent: SdkHttpRequest) extends Context.BeforeTransmission {
    override def httpRequest(): SdkHttpRequest = sent
    override def requestBody(): Optional[RequestBody] = Optional.empty()
    override def asyncRequestBody(): Optional[AsyncRequestBody] = Optional.empty()
    override def request(): SdkRequest = null
  }
}
