package io.penstock.fs.gateways

import java.net.{InetSocketAddress, URI}
import java.util.concurrent.TimeUnit.SECONDS

import scala.util.{Try, Using}

import org.apache.hadoop.fs.s3a.S3AFileSystem
import org.scalatest.funsuite.AnyFunSuite
import software.amazon.awssdk.services.s3.S3Client
import software.amazon.awssdk.services.s3.model.{GetObjectRequest, S3Exception}

import io.penstock.faults.FaultyGateway.Recorded
import io.penstock.faults.{Fault, FaultyGateway}
import io.penstock.fs.metrics.{Counters, RequestCounter}
import io.penstock.fs.testing.Store

/** What goes over the wire, seen by a gateway in front of a real store. */
class FastGetClientTest extends AnyFunSuite {

  private lazy val bucket = Store.newBucket()
  private val content = Array.tabulate[Byte](300000)(i => (i * 7 + (i >> 8)).toByte)

  /** The client of a file system behind a gateway. */
  private def through(settings: (String, String)*)(work: (FaultyGateway, S3Client) => Unit): Unit =
    Using.resource(new FaultyGateway(new InetSocketAddress(Store.endpoint.getHost, Store.endpoint.getPort))) {
      gateway =>
        val conf = Store.conf(URI.create(gateway.endpoint))
        conf.set("fs.s3a.s3.client.factory.impl", classOf[GatewayClientFactory].getName)
        settings.foreach { case (name, value) => conf.set(name, value) }
        Using.resource(Store.fileSystem(bucket, conf).asInstanceOf[S3AFileSystem]) { files =>
          val span = files.createSpan("read", "key", null)
          val client = files.getS3AInternals.getAmazonS3Client("test")
          gateway.clear()
          try work(gateway, client)
          finally span.close()
        }
    }

  private def ranged(key: String, from: Int, until: Int): GetObjectRequest =
    GetObjectRequest.builder.bucket(bucket.name).key(key).range(s"bytes=$from-${until - 1}").build()

  private def read(client: S3Client, request: GetObjectRequest): Array[Byte] =
    Using.resource(client.getObject(request))(_.readAllBytes())

  /** The SDK names the most attempts that it makes. */
  private def isFast(request: Recorded): Boolean = request.headers("amz-sdk-request") == "attempt=1"

  test("a GET of a range carries the headers of the SDK's, and its answer says the same") {
    val key = "the same/a key & more=ä+1"
    val tag = bucket.put(key, content)
    through() { (gateway, client) =>
      val request = ranged(key, 1000, 5000).toBuilder.ifMatch(s"\"$tag\"").build()
      val fast = client.getObject(request)
      assert(fast.readAllBytes() sameElements content.slice(1000, 5000))
      val slow = client.getObject(request.toBuilder.overrideConfiguration(_ => ()).build())
      assert(slow.readAllBytes() sameElements content.slice(1000, 5000))
      Seq(fast, slow).foreach(_.close())

      val (mine, sdks) = (gateway.requests.head, gateway.requests.last)
      assert(gateway.requests.size == 2)
      assert(isFast(mine) && !isFast(sdks))
      assert(mine.query == sdks.query && mine.path == sdks.path)
      assert(mine.headers.keySet == sdks.headers.keySet)
      def steady(request: Recorded) =
        request.headers -- Seq("authorization", "amz-sdk-invocation-id", "amz-sdk-request", "x-amz-date", "referer")
      def agent(request: Recorded) = request.headers("user-agent").takeWhile(_ != '#')
      assert(steady(mine) - "user-agent" == steady(sdks) - "user-agent")
      assert(agent(mine) == agent(sdks))

      val (said, known) = (fast.response, slow.response)
      assert(said.eTag == known.eTag && said.versionId == known.versionId && said.lastModified == known.lastModified)
      assert(said.contentLength == known.contentLength && said.contentRange == known.contentRange)
      assert(said.sdkHttpResponse.statusCode == 206)
    }
  }

  for (
    (fault, name) <- Seq(
      Fault.InternalError -> "500",
      Fault.slowDown() -> "503",
      Fault.Reset -> "a connection that breaks",
      Fault.LoseResponse -> "an answer that is lost"
    )
  )
    test(s"$name: the SDK goes on, at its own pace for a while, and it stays one call") {
      bucket.put("key", content)
      through("fs.s3a.audit.execution.interceptors" -> classOf[RequestCounter].getName) { (gateway, client) =>
        gateway.inject(fault)()
        val retries = Counters.RequestRetries.value
        assert(read(client, ranged("key", 0, 1000)) sameElements content.take(1000))
        assert(Counters.RequestRetries.value == retries + 1)
        read(client, ranged("key", 0, 1000))
        assert(gateway.requests.map(isFast) == Seq(true, false, false))
      }
    }

  test("after a failure the fast path is left for ten seconds, and then taken again") {
    bucket.put("key", content)
    through() { (gateway, client) =>
      var now = 0L
      val clocked = client.asInstanceOf[FastGetClient].withClock(() => now)
      gateway.inject(Fault.InternalError)()
      for (seconds <- Seq(0, 0, 9, 10, 11)) {
        now = SECONDS.toNanos(seconds.toLong)
        read(clocked, ranged("key", 0, 10))
      }
      assert(gateway.requests.map(isFast) == Seq(true, false, false, false, true, true))
    }
  }

  test("what the store refuses is the SDK's error") {
    bucket.put("key", content)
    val refused = Seq(
      ranged("missing", 0, 10) -> (404, "NoSuchKey"),
      ranged("key", content.length, content.length + 10) -> (416, "InvalidRange"),
      ranged("key", 0, 10).toBuilder.ifMatch("\"another\"").build() -> (412, "PreconditionFailed")
    )
    for ((request, (status, code)) <- refused) through() { (gateway, client) =>
      val error = intercept[S3Exception](client.getObject(request))
      assert((error.statusCode, error.awsErrorDetails.errorCode) == ((status, code)))
      assert(gateway.requests.map(isFast) == Seq(true, false))
    }
  }

  test("what asks for more than a range, or is signed in another way, is the SDK's from the start") {
    bucket.put("key", content)
    through() { (gateway, client) =>
      val whole = GetObjectRequest.builder.bucket(bucket.name).key("key").build()
      read(client, whole)
      read(client, ranged("key", 0, 10).toBuilder.ifNoneMatch("\"another\"").build())
      read(client, ranged("key", 0, 10).toBuilder.responseContentType("text/plain").build())
      assert(!gateway.requests.exists(isFast))
    }
    through("fs.s3a.signing-algorithm" -> "AWSS3V4SignerType") { (gateway, client) =>
      read(client, ranged("key", 0, 10))
      assert(!gateway.requests.exists(isFast))
    }
  }

  test("a body that is read to its end or closed gives its connection back, and one that is aborted drops it") {
    bucket.put("key", content)
    through("fs.s3a.connection.maximum" -> "1", "fs.s3a.connection.acquisition.timeout" -> "2s") { (_, client) =>
      for (_ <- 1 to 3) read(client, ranged("key", 0, 1000))
      for (_ <- 1 to 3) Using.resource(client.getObject(ranged("key", 0, 1000)))(_.read())
      for (_ <- 1 to 3) client.getObject(ranged("key", 0, content.length)).abort()
      assert(read(client, ranged("key", 10, 20)) sameElements content.slice(10, 20))
    }
  }

  test("session credentials are signed, and anonymous requests are the SDK's") {
    bucket.put("key", content)
    val keys = Store.conf()
    through(
      "fs.s3a.aws.credentials.provider" -> "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
      "fs.s3a.access.key" -> keys.get("fs.s3a.access.key"),
      "fs.s3a.session.token" -> "a-token"
    ) { (gateway, client) =>
      // The store of the tests knows no such token.
      Try(read(client, ranged("key", 0, 10)))
      val request = gateway.requests.head
      assert(isFast(request) && request.headers("x-amz-security-token") == "a-token")
      assert(request.headers("authorization").contains("x-amz-security-token"))
    }
    through("fs.s3a.aws.credentials.provider" -> "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider") {
      (gateway, client) =>
        intercept[S3Exception](read(client, ranged("key", 0, 10)))
        assert(!gateway.requests.exists(isFast))
    }
  }

  test("headers of the settings go along") {
    bucket.put("key", content)
    through("fs.s3a.requester.pays.enabled" -> "true", "fs.s3a.user.agent.prefix" -> "somebody") { (gateway, client) =>
      // The store of the tests does not know the header; another may.
      Try(read(client, ranged("key", 0, 10)))
      val request = gateway.requests.head
      assert(isFast(request) && request.headers("x-amz-request-payer") == "requester")
      assert(request.headers("authorization").contains("x-amz-request-payer"))
      assert(request.headers("user-agent").startsWith("somebody, Hadoop"))
    }
  }
}
