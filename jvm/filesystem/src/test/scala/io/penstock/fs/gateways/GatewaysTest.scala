package io.penstock.fs.gateways

import java.net.{InetAddress, InetSocketAddress, UnknownHostException}

import scala.util.Using

import org.scalatest.funsuite.AnyFunSuite

import io.penstock.faults.FaultyGateway
import io.penstock.fs.testing.Store

object GatewaysTest {

  /** The name server's present answer. */
  @volatile private var addresses: Seq[String] = Nil
  @volatile private var latest: Option[Gateways] = None

  /** As the real one, with a name server of the test's own. */
  class Factory extends GatewayClientFactory {

    override protected def gateways(endpoints: Seq[Endpoint], scattered: Boolean): Option[Gateways] = {
      latest = Some(new Gateways(endpoints, scattered, _ => addresses, later = (_, _) => ()))
      latest
    }
  }
}

class GatewaysTest extends AnyFunSuite {

  private val name = Endpoint("http", "store", 8000)

  /** A pool whose clock, name server and timer are the test's. */
  final private class Bench(endpoints: Seq[Endpoint] = Seq(name), scattered: Boolean = true) {
    var now = 0L
    var known: () => Seq[String] = () => Seq("10.0.0.1", "10.0.0.2")
    var alive = false
    private var timers = Vector.empty[(Long, () => Unit)]

    val gateways = new Gateways(
      endpoints,
      scattered,
      _ => known(),
      _ => alive,
      () => now,
      (wait, work) => timers :+= ((now + wait, work))
    )

    def names: Set[String] = gateways.snapshot().map(_.name).toSet

    def ejected: Set[String] = gateways.snapshot().filter(_.ejectedMs.nonEmpty).map(_.name).toSet

    def pass(seconds: Long): Unit = {
      val until = now + seconds * 1000000000L
      while (timers.exists(_._1 <= until)) {
        val (at, work) = timers.minBy(_._1)
        timers = timers.diff(Seq((at, work)))
        now = math.max(now, at)
        work()
      }
      now = until
    }
  }

  test("each address of a name is a gateway, and a change at the name server takes effect") {
    val bench = new Bench
    assert(bench.names == Set("http://store:8000 (10.0.0.1)", "http://store:8000 (10.0.0.2)"))
    bench.known = () => Seq("10.0.0.2", "10.0.0.3")
    bench.pass(seconds = 10)
    assert(bench.names == Set("http://store:8000 (10.0.0.2)", "http://store:8000 (10.0.0.3)"))
  }

  test("a name server that is down takes no gateway away") {
    val bench = new Bench
    val before = bench.names
    bench.known = () => throw new UnknownHostException("store")
    bench.pass(seconds = 60)
    assert(bench.names == before)
    bench.known = () => Seq("10.0.0.9")
    bench.pass(seconds = 10)
    assert(bench.names == Set("http://store:8000 (10.0.0.9)"))
  }

  test("a machine with an IPv4 and an IPv6 address is one gateway") {
    def addresses(texts: String*) = Gateways.distinctHosts(texts.map(InetAddress.getByName))
    assert(addresses("127.0.0.1", "::1") == Seq("127.0.0.1"))
    assert(addresses("10.0.0.1", "fd00::1", "10.0.0.2") == Seq("10.0.0.1", "10.0.0.2"))
    assert(addresses("fd00::1", "10.0.0.1") == Seq("[fd00:0:0:0:0:0:0:1]"))
  }

  test("over https a name stays whole: its certificate is for the name") {
    val secure = Endpoint("https", "store", 443)
    assert(new Bench(Seq(secure, name.copy(port = 80))).names.contains("https://store"))
  }

  test("an ejected gateway is probed after its time, longer and longer, and used again once it answers") {
    val bench = new Bench(Seq(name, name.copy(port = 8001)), scattered = false)
    val attempt = bench.gateways.start(prompt = true, Set.empty)
    val ill = Set(attempt.gateway.name)
    attempt.failed(Failure.Unreachable)
    assert(bench.ejected == ill)
    bench.pass(seconds = 2)
    assert(bench.ejected == ill)
    bench.alive = true
    bench.pass(seconds = 0)
    assert(bench.ejected == ill, "the next probe is due two seconds after the one that failed")
    bench.pass(seconds = 1)
    assert(bench.ejected.isEmpty)
  }

  test("an attempt ends once, however often its end is reported") {
    val bench = new Bench
    val attempt = bench.gateways.start(prompt = true, Set.empty)
    attempt.finished(5)
    attempt.failed(Failure.Unreachable)
    attempt.finished(7)
    assert(bench.ejected.isEmpty)
    val reading = bench.gateways.snapshot().find(_.name == attempt.gateway.name).get
    assert((reading.requests, reading.bytes, reading.inFlight) == ((1L, 5L, 0)))
  }

  test(
    "requests connect to an address and are signed for the name; an address that comes is used, one that goes is not"
  ) {
    val store = new InetSocketAddress(Store.endpoint.getHost, Store.endpoint.getPort)
    val bucket = Store.newBucket()
    bucket.put("key", Array[Byte](1, 2, 3))
    Using.Manager { use =>
      val one = use(new FaultyGateway(store, "127.0.0.2"))
      val others = Seq("127.0.0.3", "127.0.0.4").map(address => use(new FaultyGateway(store, address, one.port)))
      val all = one +: others
      GatewaysTest.addresses = Seq("127.0.0.2", "127.0.0.3")
      val conf = Store.conf(java.net.URI.create(s"http://store.invalid:${one.port}"))
      conf.set("fs.s3a.s3.client.factory.impl", classOf[GatewaysTest.Factory].getName)
      val files = use(Store.fileSystem(bucket, conf))

      def asked(): Seq[Boolean] = {
        all.foreach(_.clear())
        for (_ <- 1 to 4) assert(files.getFileStatus(bucket.path("key")).getLen == 3)
        assert(all.flatMap(_.requests).forall(_.headers("host") == s"store.invalid:${one.port}"))
        all.map(_.requests.nonEmpty)
      }
      assert(asked() == Seq(true, true, false))
      GatewaysTest.addresses = Seq("127.0.0.3", "127.0.0.4")
      GatewaysTest.latest.get.lookUp()
      assert(asked() == Seq(false, true, true))
    }.get
  }

  test("the bucket in a virtual host's name goes along to every gateway") {
    val request = software.amazon.awssdk.http.SdkHttpFullRequest
      .builder()
      .method(software.amazon.awssdk.http.SdkHttpMethod.GET)
      .uri(java.net.URI.create("http://bucket.store:8000/key"))
      .build()
    val other = Gateway(Endpoint("https", "elsewhere.example.com", 443))
    assert(other.addressed(request, name).getUri.toString == "https://bucket.elsewhere.example.com/key")
  }

  test("what is no endpoint is refused with the way to write it") {
    for (text <- Seq("ftp://store", "http://", "http://store/prefix", "http://a b")) {
      val error = intercept[IllegalArgumentException](Endpoint.parse(text, "http"))
      assert(error.getMessage.contains(text) && error.getMessage.contains("give it like http://"))
    }
    assert(Endpoint.parse("store:9000", "http") == Endpoint("http", "store", 9000))
    assert(Endpoint.parse("https://store/", "http").authority == "store")
  }
}
