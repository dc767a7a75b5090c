package io.penstock.fs.read

import java.nio.ByteBuffer

import scala.collection.mutable

import org.apache.hadoop.fs.s3a.RemoteFileChangedException
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.cache._

class PageFetcherTest extends AnyFunSuite {

  import PageFetcherTest._

  test("a response is closed where what comes before its first byte fails") {
    val source = new OneObject(3 * PageSize)
    val layout = Layout(3 * PageSize, PageSize)
    val status = ObjectStatus("http://gateway", "lake", "a", layout.length, 1000)
    val resolver = new VersionResolver(status, ObjectMetadataCache.None, strict = false, None, source, maxStaleness = 0)
    val plan = ReadPlan(layout, longestRequest = 8 * PageSize, shortestSeek = 0, readOver = 0, longestMerged = 0)
    val fetcher = new PageFetcher(source, Failing, plan, resolver, EtagVerifier.Unneeded)
    val failure = intercept[IllegalStateException](
      fetcher.fetch(Request(0, 2), demanded = true, scanned = false, PageSink.Cache, stopped = () => false)
    )
    assert(failure.getMessage == Failing.Why)
    assert(source.opened == 1 && source.closed == 1)
  }

  test("claims on pages of a version are filled by no other, which another thread of the stream has turned to") {
    val world = new Overwritten(claim = (cache, of, index) => cache.granted(of, index))
    world.fetch()
    assert(world.filled == Seq("new" -> 0, "new" -> 1, "new" -> 2))
    assert(world.givenOut == Seq("from the store", "from the store", "from the store"))
  }

  test("a page of the version that was believed is not given out once another thread has turned to the present one") {
    val world = new Overwritten(claim =
      (cache, of, index) => if (of.etag == "old") Claim.Arrived(cache.page) else cache.granted(of, index)
    )
    world.fetch()
    assert(world.givenOut == Seq("from the store", "from the store", "from the store"))
    assert(world.filled.map(_._1).distinct == Seq("new"))
  }

  test("a response of another version than the stream has settled on is dropped") {
    val resolver = believing("old", new OneObject(PageSize))
    val old = ObjectVersion("lake", "a", 3 * PageSize, "old")
    assert(resolver.changed(Some("old")) && resolver.settle(version("new")))
    assert(!resolver.settle(version("old")) && !resolver.givesOut(old))
    assert(resolver.givesOut(old.copy(etag = "new")) && resolver.settle(version("new")))
    assert(resolver.changed(Some("old")), "a request for the old one may be sent again for the new one")
    assert(!resolver.changed(Some("new")), "the new one has been given out")
  }
}

private object PageFetcherTest {

  private val PageSize = 1024

  /** Counts the responses that were opened and closed. */
  private class OneObject(length: Long) extends ObjectSource {
    var opened, closed = 0

    override def get(from: Long, until: Long, etag: Option[String]): RangeResponse = {
      opened += 1
      new RangeResponse {
        override val version: Version = Version(Some("tag"), length, modified = 1000, answered = 2000)
        override def read(into: Array[Byte], offset: Int, count: Int): Int = count
        override def close(): Unit = closed += 1
      }
    }
    override def retrying[T](action: String)(work: => T): T = work
    override def broke(): Unit = ()
  }

  private def version(etag: String): Version = Version(Some(etag), 3 * PageSize, modified = 1000, answered = 2000)

  private def believing(etag: String, source: ObjectSource): VersionResolver = {
    val status = ObjectStatus("http://gateway", "lake", "a", 3 * PageSize, 1000)
    val known = new ObjectMetadataCache {
      private var believed = true
      override def get(status: ObjectStatus): Option[ObjectMetadata] =
        Option.when(believed)(ObjectMetadata(etag, racy = false, confirmed = System.currentTimeMillis))
      override def put(status: ObjectStatus, etag: String, seen: Long, now: Long): Unit = ()
      override def forget(status: ObjectStatus): Unit = believed = false
    }
    new VersionResolver(status, known, strict = false, None, source, maxStaleness = 60000)
  }

  /**
   * An object whose old version a stream believes in, while another thread of the stream finds that it has been
   * overwritten: when the first claim is asked for.
   */
  private class Overwritten(claim: (Claims, ObjectVersion, Long) => Claim) {
    val filled = mutable.ArrayBuffer.empty[(String, Int)]
    val givenOut = mutable.ArrayBuffer.empty[String]

    private val source = new OneObject(3 * PageSize) {
      override def get(from: Long, until: Long, etag: Option[String]): RangeResponse = {
        if (!etag.forall(_ == "new")) throw new RemoteFileChangedException("a", "open", "it is another version now")
        new RangeResponse {
          override val version: Version = PageFetcherTest.version("new")
          override def read(into: Array[Byte], offset: Int, count: Int): Int = count
          override def close(): Unit = ()
        }
      }
    }
    private val resolver = believing("old", source)
    private val cache: Claims = new Claims((of, index) => filled += of.etag -> index.toInt) {
      private var asked = false
      override def claim(of: ObjectVersion, index: Long, patienceMs: Long): Claim = {
        if (!asked) {
          asked = true
          assert(resolver.changed(Some("old")) && resolver.settle(PageFetcherTest.version("new")))
        }
        Overwritten.this.claim(this, of, index)
      }
    }

    def fetch(): Unit = {
      val plan = ReadPlan(
        Layout(3 * PageSize, PageSize),
        longestRequest = 8 * PageSize,
        shortestSeek = 0,
        readOver = 0,
        longestMerged = 0
      )
      val sink = new PageSink {
        override def arrived(index: Long, page: Page): Boolean = {
          givenOut += "from the cache"
          true
        }
        override def fetched(index: Long, data: Array[Byte], length: Int): Boolean = {
          givenOut += "from the store"
          false
        }
      }
      new PageFetcher(source, cache, plan, resolver, EtagVerifier.Unneeded)
        .fetch(Request(0, 2), demanded = true, scanned = false, sink, stopped = () => false)
    }
  }

  /** A cache without pages, whose claims say what they are filled with. */
  private class Claims(filled: (ObjectVersion, Long) => Unit) extends PageCache {

    def granted(of: ObjectVersion, index: Long): Claim = new Claim.Granted {
      override def fill(data: ByteBuffer, scanned: Boolean): Boolean = {
        filled(of, index)
        true
      }
      override def abandon(): Unit = ()
    }

    def page: Page = new Page {
      override def length: Int = PageSize
      override def read(position: Int, into: Array[Byte], offset: Int, length: Int): Boolean = true
      override def read(position: Int, into: ByteBuffer): Boolean = true
      override def close(): Unit = ()
    }

    override def pageSize: Int = PageSize
    override def keeps: Boolean = true
    override def room: Long = 0
    override def find(of: ObjectVersion, index: Long): Option[Page] = None
    override def has(of: ObjectVersion, index: Long): Boolean = false
    override def claim(of: ObjectVersion, index: Long, patienceMs: Long): Claim = granted(of, index)
    override def fetched(bytes: Long, nanos: Long): Unit = ()
    override def answered(nanos: Long): Unit = ()
    override def admits(of: ObjectVersion, first: Long, last: Long, wanted: Long, request: Long): Boolean = true
    override def passed(of: ObjectVersion, index: Long): Unit = ()
    override def keep(of: ObjectVersion, index: Long, data: ByteBuffer): Unit = ()
    override def rename(from: ObjectVersion, fromIndex: Long, to: ObjectVersion, toIndex: Long): Unit = ()
    override def forget(of: ObjectVersion): Unit = ()
  }

  /** A cache that fails once the version is known. */
  private object Failing extends Claims((_, _) => ()) {
    val Why = "the page table is gone"

    override def claim(of: ObjectVersion, index: Long, patienceMs: Long): Claim =
      if (of.etag == "tag") throw new IllegalStateException(Why) else Claim.Busy
  }
}
