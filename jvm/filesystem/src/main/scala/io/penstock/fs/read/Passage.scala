package io.penstock.fs.read

import java.io.Closeable
import java.nio.ByteBuffer

import io.penstock.fs.Counters
import io.penstock.fs.cache.{Claim, ObjectIdentity, Page, PageCache}

/**
 * One response by which a reader passes through an object that the cache has no room for: he takes its pages as he
 * comes to them, so that none has to be kept until then. What there is room for after all is kept, what is here is read
 * over.
 *
 * Holds a connection until the last page of `request` was taken or it is closed, and no claim between two pages. Not
 * thread-safe.
 *
 * @param readOver
 *   bytes of the response that are cheaper to drop than another request is to send
 */
final private[read] class Passage(
    layout: Layout,
    cache: PageCache,
    identity: StreamIdentity,
    download: Download,
    request: Request,
    readOver: Int
) extends Closeable {

  private val buffers = PageBuffers.of(layout.pageSize)

  /** Where the response stands. */
  private var position = layout.start(request.first)

  /** Whether the page is still to come in this response, and soon enough. */
  def reaches(page: Long): Boolean = {
    val gap = layout.start(page) - position
    page <= request.last && gap >= 0 && (gap == 0 || gap < readOver)
  }

  /**
   * A page that this response [[reaches]], pinned until it is closed; short, or null, if the object has ended.
   *
   * @throws java.io.IOException
   *   what S3A's streams throw
   */
  def take(index: Long): Page =
    identity.pages() match {
      case null => read(index)(_ => ())
      case of => claimed(of, index)
    }

  private def claimed(of: ObjectIdentity, index: Long): Page =
    cache.claim(of, index, 0) match {
      case Claim.Arrived(page) => page
      case Claim.Busy => read(index)(_ => ())
      case granted: Claim.Granted =>
        try read(index)(whole => granted.fill(whole, scanned = true))
        finally granted.abandon()
    }

  private def read(index: Long)(keep: ByteBuffer => Unit): Page = {
    val buffer = buffers.take()
    var page: Page = null
    try {
      while (position < layout.start(index))
        next(buffer, math.min(layout.pageSize.toLong, layout.start(index) - position).toInt)
      val length = next(buffer, layout.size(index))
      if (length == layout.size(index)) keep(ByteBuffer.wrap(buffer, 0, length))
      if (length > 0) page = new HeapPage(buffer, length, buffers)
    } finally if (page == null) buffers.give(buffer)
    if (index == request.last) close()
    page
  }

  /** @return how many bytes there were: fewer only if the object has ended */
  private def next(into: Array[Byte], wanted: Int): Int = {
    val length = download.read(into, 0, wanted)
    Counters.BytesFetched.add(length.toLong)
    position += wanted
    length
  }

  override def close(): Unit = download.close()
}
