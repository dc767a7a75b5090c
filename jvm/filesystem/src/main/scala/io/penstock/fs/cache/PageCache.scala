package io.penstock.fs.cache

import java.io.Closeable
import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8

import org.apache.commons.codec.digest.MurmurHash3

/**
 * Pages of objects near the work, shared by every process of this node and outliving all of them.
 *
 * Page `i` of an object holds its bytes from `i * pageSize`; the last one is shorter. A page is there whole or not at
 * all. Every method may be called from any thread, and none throws: a tier that is full, read-only, gone or damaged
 * makes pages missing, which the caller then reads from the store.
 */
trait PageCache {

  /** Bytes of every page but an object's last. */
  def pageSize: Int

  /** Whether a page that is fetched now has a chance to be kept; false when no tier works. */
  def keeps: Boolean

  /** Bytes that would be kept now in place of nothing that is in use, as far as is known without making room. */
  def room: Long

  /** The page, pinned until it is closed; none if it is in no tier. Counts towards hits and misses. */
  def find(of: ObjectVersion, index: Long): Option[Page]

  /** Whether [[find]] would find the page, as far as is known without touching it; counts nothing. */
  def has(of: ObjectVersion, index: Long): Boolean

  /**
   * Asks to be the one who fetches a missing page, among all threads and processes of this node.
   *
   * @param patienceMs
   *   how long to wait for another who is fetching it; 0 asks without waiting
   */
  def claim(of: ObjectVersion, index: Long, patienceMs: Long): Claim

  /** Bytes came from the store in so long, waiting included: a tier that is no faster leaves pages to it. */
  def fetched(bytes: Long, nanos: Long): Unit

  /** The store took so long to begin an answer. */
  def answered(nanos: Long): Unit

  /**
   * Whether a reader who asks for `wanted` bytes, which lie on the pages from `first` to `last` and are in no tier,
   * should have those pages fetched whole and kept. Changes nothing.
   *
   * @param of
   *   a name of the object that is known before its version is
   * @param request
   *   bytes of the request that would bring the wanted ones to who keeps nothing
   */
  def admits(of: ObjectVersion, first: Long, last: Long, wanted: Long, request: Long): Boolean

  /** A page was read from the store, in part or whole, and not kept. */
  def passed(of: ObjectVersion, index: Long): Unit

  /**
   * Keeps a page that nobody claimed, such as one a writer leaves behind; nothing happens if it is there already, being
   * fetched, or no tier takes it. `data` (position to limit: the whole page) is copied before the call returns and its
   * position stays. Counts the pages it kept as written through.
   */
  def keep(of: ObjectVersion, index: Long, data: ByteBuffer): Unit

  /**
   * Gives a page that was kept under one name another: page `fromIndex` of `from` is page `toIndex` of `to` from now
   * on, and no longer there under its old name. Nothing happens if it is in no tier; it is lost if its length is not
   * that of the page it is to be.
   */
  def rename(from: ObjectVersion, fromIndex: Long, to: ObjectVersion, toIndex: Long): Unit

  /** Forgets every page of this version of the object, on every tier. */
  def forget(of: ObjectVersion): Unit
}

/** A page in memory that others may evict meanwhile: its bytes stay readable until it is closed. */
trait Page extends Closeable {
  def length: Int

  /**
   * Copies `length` bytes from `position` in the page.
   *
   * @return
   *   false if the page turned out to be damaged: it has been dropped, and what was copied means nothing
   */
  def read(position: Int, into: Array[Byte], offset: Int, length: Int): Boolean

  /** Copies `into.remaining` bytes from `position`; as the other `read`. */
  def read(position: Int, into: ByteBuffer): Boolean

  override def close(): Unit
}

/** The answer to [[PageCache.claim]]. */
sealed trait Claim

object Claim {

  /** Fetch it, then call exactly one of the two; a process that dies meanwhile has abandoned its claim. */
  trait Granted extends Claim {

    /**
     * Keeps the page, if any tier takes it, and wakes those who wait. `data` (position to limit: the whole page) is
     * copied before the call returns and its position stays.
     *
     * @param scanned
     *   by somebody who reads the object through: such a page pushes out nothing that came or was found lately
     * @return
     *   whether the page is there now
     */
    def fill(data: ByteBuffer, scanned: Boolean = false): Boolean

    /** The fetch failed or was given up: the next one who waits is granted the claim. */
    def abandon(): Unit
  }

  /** Another one fetched it meanwhile. */
  final case class Arrived(page: Page) extends Claim

  /** Another one is still fetching it after all the patience: read what is needed from the store, keep nothing. */
  case object Busy extends Claim
}

/**
 * One version of one object: what its bytes are known by. An overwritten object is a different one.
 *
 * @param length
 *   in bytes, at least 0
 * @param etag
 *   without quotes, never empty: an object whose entity tag is not known has no version yet
 * @param scope
 *   of the credentials that may read it; empty where nobody asks
 */
final case class ObjectVersion(bucket: String, key: String, length: Long, etag: String, scope: String = "") {
  require(length >= 0 && etag.nonEmpty, s"no version of an object: $this")

  private lazy val hash: Array[Long] = {
    val text = s"$bucket\u0000$key\u0000$length\u0000$etag\u0000$scope".getBytes(UTF_8)
    MurmurHash3.hash128x64(text)
  }

  private var latest: ObjectVersion = _

  /** This version for those who have the credentials of `scope`: one object for each scope in turn, hashed once. */
  private[cache] def scoped(scope: String): ObjectVersion = {
    val known = latest
    if (known != null && known.scope == scope) known
    else {
      // Threads may race to set it: each returns its own, and finds a whole object, since its fields are final.
      val made = copy(scope = scope)
      latest = made
      made
    }
  }

  /** The name of page `index` (0-based) at this page size, the same in every process and after every restart. */
  def page(index: Long, pageSize: Int): PageKey = {
    val bytes = ByteBuffer.allocate(28).putLong(hash(0)).putLong(hash(1)).putLong(index).putInt(pageSize).array
    val mixed = MurmurHash3.hash128x64(bytes)
    // Zero marks a free slot in the page table.
    PageKey(if (mixed(0) == 0) 1 else mixed(0), mixed(1))
  }
}

/** 128 bits that name one page of one version of one object; `high` is never zero. */
final case class PageKey(high: Long, low: Long)
