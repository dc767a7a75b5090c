package io.penstock.fs.gateways

import java.net.{InetSocketAddress, URI}
import java.time.Duration

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.S3ClientFactory.S3ClientCreationParameters
import org.apache.hadoop.fs.s3a.impl.AWSClientConfig
import org.apache.hadoop.fs.{FileSystem, Path}
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}
import software.amazon.awssdk.core.client.config.SdkAdvancedClientOption

import io.penstock.faults.FaultyGateway.Recorded
import io.penstock.faults.{Fault, FaultyGateway}
import io.penstock.fs.metrics.Counters
import io.penstock.fs.testing.Store

/** S3A on a real store through two gateways, one of which misbehaves. */
class GatewayClientTest extends AnyFunSuite with Eventually {

  implicit override def patienceConfig: PatienceConfig = PatienceConfig(Span(60, Seconds), Span(50, Millis))

  private lazy val bucket = Store.newBucket()
  private val content = Array.tabulate[Byte](1 << 20)(i => (i * 7 + (i >> 8)).toByte)
  private def store = new InetSocketAddress(Store.endpoint.getHost, Store.endpoint.getPort)

  /** Two gateways and a file system that uses both. */
  private def through(settings: (String, String)*)(work: (FaultyGateway, FaultyGateway, FileSystem) => Unit): Unit =
    Using.resources(new FaultyGateway(store), new FaultyGateway(store)) { (one, other) =>
      val conf = configured(one.endpoint, s"${one.endpoint}, ${other.endpoint}")
      settings.foreach { case (name, value) => conf.set(name, value) }
      Using.resource(Store.fileSystem(bucket, conf)) { files =>
        // Some of S3A's own requests when it starts.
        one.clear()
        other.clear()
        work(one, other, files)
      }
    }

  private def configured(first: String, all: String): Configuration = {
    val conf = Store.conf(URI.create(first))
    conf.set("fs.s3a.s3.client.factory.impl", classOf[GatewayClientFactory].getName)
    conf.set(GatewayClientFactory.Endpoints, all)
    conf
  }

  private def write(files: FileSystem, path: Path, data: Array[Byte]): Unit =
    Using.resource(files.create(path, true))(_.write(data))

  private def read(files: FileSystem, path: Path): Array[Byte] = Using.resource(files.open(path))(_.readAllBytes())

  /** The work's additions to both counters of gateways: (ejected, failovers). */
  private def counted(work: => Unit): (Long, Long) = {
    def now = (Counters.GatewaysEjected.value, Counters.GatewayFailovers.value)
    val before = now
    work
    (now._1 - before._1, now._2 - before._2)
  }

  private def reading(gateway: FaultyGateway): GatewayReading =
    Gateways.snapshot().find(_.name == gateway.endpoint).get

  test("list, put, multipart, ranged get, copy and bulk delete are signed right for each of two gateways") {
    through("fs.s3a.create.checksum.algorithm" -> "CRC32C") { (one, other, files) =>
      val large = Array.tabulate[Byte](11 << 20)(i => (i * 31 + (i >> 12)).toByte)
      write(files, bucket.path("all/large file"), large)
      for (index <- 1 to 6) write(files, bucket.path(s"all/small-$index"), content.take(1000 * index))
      Using.resource(files.open(bucket.path("all/large file"))) { in =>
        val part = new Array[Byte](70000)
        in.readFully(6 << 20, part)
        assert(part sameElements large.slice(6 << 20, (6 << 20) + part.length))
      }
      assert(files.listStatus(bucket.path("all")).length == 7)
      assert(files.rename(bucket.path("all"), bucket.path("moved")))
      assert(bucket.get("moved/large file").exists(_ sameElements large))
      assert(files.delete(bucket.path("moved"), true))
      assert(bucket.list("moved/").isEmpty && bucket.pendingUploads().isEmpty)

      val requests = one.requests ++ other.requests
      assert(requests.filter(request => request.status >= 400 && request.status != 404) == Nil)
      val kinds: Seq[(String, Recorded => Boolean)] = Seq(
        "list" -> (_.query.contains("list-type=2")),
        "put" -> (request => request.method == "PUT" && request.query.isEmpty && request.bytesUp > 0),
        "part" -> (_.query.contains("partNumber=")),
        "range" -> (_.range.nonEmpty),
        "copy" -> (_.headers.contains("x-amz-copy-source")),
        "bulk delete" -> (request => request.method == "POST" && request.query.startsWith("delete"))
      )
      for ((kind, is) <- kinds) assert(requests.exists(is), kind)
      for (gateway <- Seq(one, other)) {
        assert(gateway.requests.map(_.headers("host")).toSet == Set(s"127.0.0.1:${gateway.port}"))
        assert(gateway.requests.size > requests.size / 5, "the load is shared")
        eventually(assert(reading(gateway).inFlight == 0))
      }
    }
  }

  test("requests carry and sign the same headers as those of S3A's own client") {
    def signed(requests: Seq[Recorded]): Set[(String, String, String, String)] = requests.map { request =>
      // Not the sums themselves: the contents of lists and the ids of uploads differ.
      val sum = request.headers.getOrElse("x-amz-content-sha256", "").replaceAll("^[0-9a-f]{64}$", "of the content")
      val headers = request.headers.getOrElse("authorization", "").split(", ").find(_.startsWith("SignedHeaders="))
      // Stores know the encoding from x-amz-content-sha256; S3A with a signer of its settings leaves this one out too.
      val without = headers.getOrElse("none").replace("content-encoding;", "")
      (request.method, request.query.takeWhile(_ != '='), sum, without)
    }.toSet
    def work(files: FileSystem): Unit = {
      write(files, bucket.path("same/small"), content)
      write(files, bucket.path("same/large"), new Array[Byte](6 << 20))
      assert(read(files, bucket.path("same/small")) sameElements content)
      assert(files.rename(bucket.path("same"), bucket.path("same-2")))
      assert(files.delete(bucket.path("same-2"), true))
    }
    val plain = Using.resource(new FaultyGateway(store)) { gateway =>
      Using.resource(Store.fileSystem(bucket, Store.conf(URI.create(gateway.endpoint))))(work)
      signed(gateway.requests)
    }
    through() { (one, other, files) =>
      work(files)
      assert(signed(one.requests ++ other.requests) == plain)
    }
  }

  test("session credentials are signed for each gateway too") {
    val conf = Store.conf()
    through(
      "fs.s3a.aws.credentials.provider" -> "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
      "fs.s3a.access.key" -> conf.get("fs.s3a.access.key"),
      "fs.s3a.session.token" -> "a-token"
    ) { (one, other, files) =>
      for (index <- 1 to 4) scala.util.Try(files.exists(bucket.path(s"session-$index")))
      for (request <- one.requests ++ other.requests) {
        assert(request.headers("x-amz-security-token") == "a-token")
        assert(request.headers("authorization").contains("x-amz-security-token"))
      }
      assert(one.requests.nonEmpty && other.requests.nonEmpty)
    }
  }

  test("anonymous requests are sent to each gateway, without a signature") {
    through("fs.s3a.aws.credentials.provider" -> "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider") {
      (one, other, files) =>
        for (index <- 1 to 4) intercept[java.io.IOException](files.listStatus(bucket.path(s"anonymous-$index")))
        assert(one.requests.nonEmpty && other.requests.nonEmpty)
        assert((one.requests ++ other.requests).forall(!_.headers.contains("authorization")))
    }
  }

  test("with one endpoint that has one address, the client is S3A's own") {
    class Opened extends GatewayClientFactory {
      def options(endpoint: String, conf: Configuration) = {
        val parameters = new S3ClientCreationParameters().withEndpoint(endpoint).withPathStyleAccess(true)
        createClientOverrideConfiguration(parameters, conf).build()
      }
    }
    val plain = new Opened().options("http://127.0.0.1:1", configured("http://127.0.0.1:1", "http://127.0.0.1:1"))
    assert(plain.executionInterceptors.isEmpty)
    assert(!plain.advancedOption(SdkAdvancedClientOption.SIGNER: @annotation.nowarn("cat=deprecation")).isPresent)
    val two = new Opened().options("http://127.0.0.1:1", configured("http://127.0.0.1:1", "http://127.0.0.2:1"))
    assert(two.executionInterceptors.contains(GatewayObserver))
  }

  test("a gateway that refuses is ejected, its requests go to the other, and it returns when it is back") {
    through() { (one, _, files) =>
      bucket.put("refuses", content)
      one.refuse()
      val (ejected, failovers) = counted {
        for (_ <- 1 to 6) assert(read(files, bucket.path("refuses")) sameElements content)
      }
      assert(ejected == 1 && failovers == 1, "found out once")
      assert(reading(one).ejectedMs.nonEmpty)
      one.accept()
      eventually(assert(reading(one).ejectedMs.isEmpty))
      one.clear()
      for (_ <- 1 to 4) read(files, bucket.path("refuses"))
      assert(one.requests.nonEmpty, "its share of the load returns")
    }
  }

  test("a gateway that dies in the middle of a GET's body: the read goes on elsewhere") {
    through() { (one, other, files) =>
      bucket.put("half", content)
      for (gateway <- Seq(one, other)) gateway.inject(Fault.CutAfter(300000, reset = true))(_.method == "GET")
      one.inject(Fault.CutAfter(300000))(_.method == "GET")
      assert(read(files, bucket.path("half")) sameElements content)
      eventually(assert(Seq(one, other).map(reading(_).inFlight).sum == 0))
    }
  }

  test("a gateway that dies in the middle of a PUT: the upload is sent again elsewhere") {
    through() { (one, other, files) =>
      for (gateway <- Seq(one, other)) gateway.inject(Fault.CutUploadAfter(100000))(_.method == "PUT")
      val (_, failovers) = counted(write(files, bucket.path("put"), content))
      assert(bucket.get("put").exists(_ sameElements content))
      assert(failovers >= 1)
      assert((one.requests ++ other.requests).count(request => request.method == "PUT" && request.status == 0) == 2)
    }
  }

  test("a gateway whose response is lost after the store did its work: the answer comes from the other") {
    through() { (one, other, files) =>
      for (gateway <- Seq(one, other)) gateway.inject(Fault.LoseResponse)(_.method == "PUT")
      write(files, bucket.path("lost"), content)
      assert(bucket.get("lost").exists(_ sameElements content))
      assert((one.requests ++ other.requests).filter(_.method == "PUT").map(_.status).sorted == Seq(0, 0, 200))
    }
  }

  test("a gateway that answers 503 is left alone for a while, and is not ejected") {
    through() { (one, _, files) =>
      bucket.put("busy", content)
      one.inject(Fault.slowDown(Some(30)))()
      val (ejected, failovers) = counted {
        for (_ <- 1 to 5) assert(read(files, bucket.path("busy")) sameElements content)
      }
      assert((ejected, failovers) == ((0L, 1L)))
      assert(one.requests.map(_.status) == Vector(503), "nothing more until it is ready")
    }
  }

  test("a gateway that answers 500 again and again is ejected") {
    through() { (one, _, files) =>
      bucket.put("errors", content)
      one.inject(Fault.InternalError, times = 1000)()
      val (ejected, _) = counted {
        for (_ <- 1 to 8) assert(read(files, bucket.path("errors")) sameElements content)
      }
      assert(ejected == 1)
      assert(one.requests.count(_.headers.contains("authorization")) == GatewayPool.Patience)
    }
  }

  test("a black-holed gateway costs one request its time-out, and then nobody any more") {
    // S3A knows better than to wait less than 15 s, unless a setting says so.
    AWSClientConfig.setMinimumOperationDuration(Duration.ofSeconds(1))
    try
      through("fs.s3a.connection.timeout" -> "6s") { (one, _, files) =>
        bucket.put("hole", content.take(1000))
        one.inject(Fault.BlackHole, times = 1000)()
        for (_ <- 1 to 10) assert(read(files, bucket.path("hole")).length == 1000)
        assert(reading(one).ejectedMs.nonEmpty)
        assert(one.requests.count(_.headers.contains("authorization")) == 1)
      }
    finally AWSClientConfig.resetMinimumOperationDuration()
  }

  test("a gateway several times slower than the other is taken out") {
    through() { (one, other, files) =>
      one.inject(Fault.Delay(600), times = 1000)()
      def ejections = Counters.GatewaysEjected.value
      val before = ejections
      // Not longer: it answers its probe, returns, and is measured again.
      Iterator.from(1).take(100).takeWhile(_ => ejections == before).foreach { index =>
        files.exists(bucket.path(s"slow-$index"))
      }
      assert(ejections == before + 1)
      assert(reading(other).ejectedMs.isEmpty)
      assert(one.requests.count(_.headers.contains("authorization")) >= GatewayPool.Samples)
    }
  }

  test("what S3A itself is refused, as not found or forbidden, is no gateway's failure") {
    through() { (one, other, files) =>
      val (ejected, failovers) = counted {
        for (index <- 1 to 10) assert(!files.exists(bucket.path(s"missing-$index")))
      }
      assert((ejected, failovers) == ((0L, 0L)))
      assert(Seq(one, other).map(reading(_).inFlight).sum == 0)
    }
  }

  test("a reader that stops early and closes leaves nothing in flight") {
    through("fs.s3a.experimental.input.fadvise" -> "sequential") { (one, other, files) =>
      bucket.put("early", content)
      for (_ <- 1 to 4)
        Using.resource(files.open(bucket.path("early")))(in => assert(in.read() == (content.head & 0xff)))
      eventually(assert(Seq(one, other).map(reading(_).inFlight).sum == 0))
    }
  }
}
