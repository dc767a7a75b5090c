package io.penstock.fs.cache

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8

import org.apache.commons.codec.digest.MurmurHash3

/**
 * One version of one object: what its bytes are known by. An overwritten object is a different one.
 *
 * @param length
 *   in bytes, at least 0
 * @param etag
 *   without quotes, never empty: an object whose entity tag is not known has no identity yet
 * @param scope
 *   of the credentials that may read it; empty where nobody asks
 */
final case class ObjectIdentity(bucket: String, key: String, length: Long, etag: String, scope: String = "") {
  require(length >= 0 && etag.nonEmpty, s"not an identity: $this")

  private lazy val hash: Array[Long] = {
    val text = s"$bucket\u0000$key\u0000$length\u0000$etag\u0000$scope".getBytes(UTF_8)
    MurmurHash3.hash128x64(text)
  }

  private var latest: ObjectIdentity = _

  /** This version for those who have the credentials of `scope`: one object for each scope in turn, hashed once. */
  private[cache] def scoped(scope: String): ObjectIdentity = {
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
