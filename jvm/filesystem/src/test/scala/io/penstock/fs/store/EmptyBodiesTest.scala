package io.penstock.fs.store

import java.net.{InetSocketAddress, URI}

import scala.util.Using

import org.scalatest.funsuite.AnyFunSuite

import io.penstock.faults.FaultyGateway
import io.penstock.fs.PenstockFileSystem
import io.penstock.fs.cache.CacheSettings
import io.penstock.fs.metrics.{Counters, RequestCounter}
import io.penstock.fs.testing.Store

/** Ceph 16 refuses an empty object that is signed by chunks. */
class EmptyBodiesTest extends AnyFunSuite {

  private lazy val bucket = Store.newBucket()
  private var times = 0

  /** How the PUTs of an empty file, an empty directory and a file of one byte are signed, by their keys. */
  private def signed(settings: (String, String)*): Map[String, String] = {
    val store = new InetSocketAddress(Store.endpoint.getHost, Store.endpoint.getPort)
    Using.resource(new FaultyGateway(store)) { gateway =>
      val conf = Store.conf(URI.create(gateway.endpoint))
      conf.set("fs.s3a.impl", classOf[PenstockFileSystem].getName)
      conf.set(CacheSettings.Enabled, "false")
      times += 1
      settings.foreach { case (name, value) => conf.set(name, value) }
      Using.resource(Store.fileSystem(bucket, conf)) { files =>
        files.create(bucket.path(s"$times/empty"), true).close()
        files.mkdirs(bucket.path(s"$times/directory"))
        Using.resource(files.create(bucket.path(s"$times/byte"), true))(_.write(1))
      }
      val puts = gateway.requests.filter(_.method == "PUT")
      assert(puts.forall(_.status == 200))
      puts.map(put => put.path.stripPrefix(s"/${bucket.name}/$times/") -> put.headers("x-amz-content-sha256")).toMap
    }
  }

  private val Nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

  private def own(name: String) = s"fs.s3a.bucket.${bucket.name}.$name"

  for (
    (what, settings) <- Seq(
      "with the file system's class alone" -> Seq("fs.s3a.audit.execution.interceptors" -> ""),
      "beside other interceptors" -> Seq.empty,
      "beside interceptors of the bucket's own" ->
        Seq(own("audit.execution.interceptors") -> classOf[RequestCounter].getName),
      "named in the settings too" ->
        Seq("fs.s3a.audit.execution.interceptors" -> classOf[EmptyBodies].getName)
    )
  ) test(s"empty objects are signed as a whole, others by chunks: $what") {
    val how = signed(settings: _*)
    assert(how("empty") == Nothing && how("directory/") == Nothing)
    assert(how("byte").startsWith("STREAMING-"))
  }

  test("what counts requests still does") {
    val before = Counters.RequestsByKind.find(_.kind == "PUT").get.sent.value
    signed()
    assert(Counters.RequestsByKind.find(_.kind == "PUT").get.sent.value == before + 3)
  }
}
