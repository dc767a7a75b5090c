package io.penstock.fs.read

import java.io.Closeable
import java.nio.ByteBuffer

import io.penstock.fs.cache.{Claim, ObjectVersion, Page, PageCache}
import io.penstock.fs.metrics.Counters

/**
 * One response of the store, from which a reader takes bytes as he comes to them, so that nothing has to be kept until
 * then: straight into his buffer ([[read]]), or, where there may be room in the cache after all, page by page
 * ([[take]]). What is here is read over.
 *
 * Holds a connection until the last byte was taken or it is closed, and no claim between two calls. Not thread-safe.
 *
 * @param from
 *   the first byte of the response
 * @param until
 *   the first byte behind it
 * @param readOver
 *   bytes of the response that are cheaper to drop than another request is to send
 * @param use
 *   whether it is to be read by [[read]], or by [[take]]
 */
final private[read] class ReadThroughStream(
    layout: Layout,
    cache: PageCache,
    resolver: VersionResolver,
    download: ResumingDownload,
    from: Long,
    until: Long,
    readOver: Int,
    val use: ReadThroughStream.Use
) extends Closeable {

  import ReadThroughStream._

  private val buffers = PageBuffers.of(layout.pageSize)

  /** Where the response stands. */
  private var position = from

  /** Whether a read has failed: the download may have taken bytes that no reader received. */
  private var broken = false

  /** The page of which bytes were read last, which is counted once. */
  private var passing = -1L

  /**
   * Whether the byte, with its page if pages are kept, is still to come in this response, and soon enough. No byte is
   * once a read has failed.
   */
  def reaches(at: Long): Boolean = {
    val gap = (if (use != Straight) layout.start(layout.pageOf(at)) else at) - position
    !broken && at < until && gap >= 0 && (gap == 0 || gap < readOver)
  }

  /**
   * Reads bytes of one page from a position that this response [[reaches]]: until the page or the response ends or
   * `into` is full.
   *
   * @return
   *   how many; 0 if the object has ended
   * @throws java.io.IOException
   *   what S3A's streams throw
   */
  def read(at: Long, into: ByteBuffer): Int = {
    skipTo(at)
    val index = layout.pageOf(at)
    if (index != passing) cache.passed(resolver.nameless, index)
    passing = index
    val wanted = math.min(into.remaining.toLong, math.min(layout.end(index), until) - at).toInt
    val read =
      if (into.hasArray) next(into.array, into.arrayOffset + into.position(), wanted)
      else inPieces(into, wanted)
    if (into.hasArray) into.position(into.position() + read)
    Counters.BytesFromStore.add(read.toLong)
    if (position >= until) close()
    read
  }

  private def inPieces(into: ByteBuffer, wanted: Int): Int = {
    val buffer = buffers.take()
    try {
      val read = next(buffer, 0, wanted)
      into.put(buffer, 0, read)
      read
    } finally buffers.give(buffer)
  }

  private def skipTo(at: Long): Unit =
    if (position < at) {
      val buffer = buffers.take()
      try while (position < at) next(buffer, 0, math.min(layout.pageSize.toLong, at - position).toInt): Unit
      finally buffers.give(buffer)
    }

  /**
   * A page that this response [[reaches]], pinned until it is closed, and kept if it is to be and there is room for it;
   * short, or null, if the object has ended.
   *
   * @throws java.io.IOException
   *   what S3A's streams throw
   */
  def take(index: Long): Page =
    resolver.pages() match {
      case of if of != null && use == Kept => claimed(of, index)
      case _ =>
        cache.passed(resolver.nameless, index)
        whole(index)(_ => ())
    }

  private def claimed(of: ObjectVersion, index: Long): Page =
    cache.claim(of, index, 0) match {
      case Claim.Arrived(page) => page
      case Claim.Busy => whole(index)(_ => ())
      case granted: Claim.Granted =>
        try whole(index)(page => granted.fill(page, scanned = true))
        finally granted.abandon()
    }

  private def whole(index: Long)(keep: ByteBuffer => Unit): Page = {
    skipTo(layout.start(index))
    val buffer = buffers.take()
    var page: Page = null
    try {
      val length = next(buffer, 0, layout.size(index))
      if (length == layout.size(index)) keep(ByteBuffer.wrap(buffer, 0, length))
      if (length > 0) page = new FetchedPage(buffer, length, buffers)
    } finally if (page == null) buffers.give(buffer)
    if (position >= until) close()
    page
  }

  /**
   * Takes the next bytes of the response. A failure ends the stream for good, since where the download stands is not
   * known then: what follows would be taken for bytes of another position.
   *
   * @return
   *   how many bytes there were: fewer only if the object has ended
   */
  private def next(into: Array[Byte], offset: Int, wanted: Int): Int = {
    val length =
      try resolver.reading(download.read(into, offset, wanted))
      catch {
        case failure: Throwable =>
          broken = true
          close()
          throw failure
      }
    Counters.BytesFetched.add(length.toLong)
    position += wanted
    length
  }

  override def close(): Unit = download.close()
}

private[read] object ReadThroughStream {

  /** What becomes of a response's bytes. */
  sealed trait Use

  /** They go straight into the reader's buffers. */
  case object Straight extends Use

  /** They are held a page at a time, for a reader who reads that page and no tier. */
  case object Held extends Use

  /** They are kept, where there is room. */
  case object Kept extends Use
}
