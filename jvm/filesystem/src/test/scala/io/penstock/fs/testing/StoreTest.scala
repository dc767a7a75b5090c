package io.penstock.fs.testing

import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Using

import org.scalatest.funsuite.AnyFunSuite

/** The ground of the suites: the store of the tests does what they ask, and S3A and a plain look at it agree. */
class StoreTest extends AnyFunSuite {

  private lazy val bucket = Store.newBucket()

  test("what S3A writes is what a plain look finds, and the other way round") {
    Using.resource(Store.fileSystem(bucket, Store.conf())) { files =>
      val data = Array.tabulate[Byte](6 << 20)(i => (i * 31 + (i >> 10)).toByte)
      Using.resource(files.create(bucket.path("a/übrig & more.bin")))(_.write(data))
      assert(bucket.get("a/übrig & more.bin").exists(_.sameElements(data)))
      assert(bucket.list("a/") == Seq("a/übrig & more.bin"))

      val etag = bucket.put("b/plain", "plain".getBytes(UTF_8))
      assert(bucket.etag("b/plain").contains(etag))
      val read = Using.resource(files.open(bucket.path("b/plain")))(_.readAllBytes())
      assert(new String(read, UTF_8) == "plain")
      bucket.delete("b/plain")
      assert(!files.exists(bucket.path("b/plain")))
      assert(bucket.get("b/plain").isEmpty && bucket.etag("b/plain").isEmpty)
    }
    assert(bucket.pendingUploads().isEmpty)
  }

  test("an object's tag is that of its bytes, not of the time they were written") {
    val tags = Seq("one", "two", "one").map(text => bucket.put("tag", text.getBytes(UTF_8)))
    assert(tags.head == tags.last && tags.head != tags(1))
  }

  test("renaming works: copies go through the SDK's asynchronous client") {
    Using.resource(Store.fileSystem(bucket, Store.conf())) { files =>
      bucket.put("old/name", Array[Byte](1, 2, 3))
      assert(files.rename(bucket.path("old/name"), bucket.path("new")))
      assert(bucket.get("new").exists(_.sameElements(Array[Byte](1, 2, 3))))
      assert(bucket.get("old/name").isEmpty)
    }
  }
}
