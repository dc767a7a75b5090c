package io.penstock.fs.read

import java.nio.ByteBuffer

import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.cache._

class FetcherTest extends AnyFunSuite {

  import FetcherTest._

  test("a response is closed where what comes before its first byte fails") {
    val source = new OneObject(3 * PageSize)
    val layout = Layout(3 * PageSize, PageSize)
    val status = ObjectStatus("http://gateway", "lake", "a", layout.length, 1000)
    val identity = new StreamIdentity(status, KnownObjects.None, strict = false, None, source, maxStaleness = 0)
    val plan = ReadPlan(layout, longestRequest = 8 * PageSize, shortestSeek = 0, readOver = 0)
    val fetcher = new Fetcher(source, Failing, plan, identity, TagCheck.Unneeded)
    val failure = intercept[IllegalStateException](
      fetcher.fetch(Request(0, 2), demanded = true, scanned = false, PageSink.Cache, stopped = () => false)
    )
    assert(failure.getMessage == Failing.Why)
    assert(source.opened == 1 && source.closed == 1)
  }
}

private object FetcherTest {

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

  /** A cache that fails once the version is known. */
  private object Failing extends PageCache {
    val Why = "the page table is gone"

    override def pageSize: Int = PageSize
    override def keeps: Boolean = true
    override def roomForScan: Long = 0
    override def find(of: ObjectIdentity, index: Long): Option[Page] = None
    override def has(of: ObjectIdentity, index: Long): Boolean = false
    override def claim(of: ObjectIdentity, index: Long, patienceMs: Long): Claim =
      if (of.etag == "tag") throw new IllegalStateException(Why) else Claim.Busy
    override def fetched(bytes: Long, nanos: Long): Unit = ()
    override def keep(of: ObjectIdentity, index: Long, data: ByteBuffer): Unit = ()
    override def rename(from: ObjectIdentity, fromIndex: Long, to: ObjectIdentity, toIndex: Long): Unit = ()
    override def forget(of: ObjectIdentity): Unit = ()
  }
}
