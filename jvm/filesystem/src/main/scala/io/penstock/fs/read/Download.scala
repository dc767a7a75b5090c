package io.penstock.fs.read

import java.io.{Closeable, EOFException, IOException, InterruptedIOException}
import java.util

import scala.util.control.NonFatal

import io.penstock.fs.cache.PageCache

/**
 * The bytes of one range, front to back. A response that breaks off in the middle is asked for again from there, as
 * often as the source's retries allow without a page's progress; it is never a mixture of two versions. A small object
 * that comes whole is compared with its entity tag, by `tags`.
 *
 * @param stopped
 *   asked between two reads: whether nobody wants the bytes any more
 * @param cache
 *   is told how long the store took for what
 */
final private[read] class Download(
    source: ObjectSource,
    from: Long,
    until: Long,
    expected: Option[String],
    stopped: () => Boolean,
    tags: TagCheck,
    cache: PageCache
) extends Closeable {

  import Download._

  private var position = from
  private var etag = expected
  private var response: RangeResponse = _
  private var end = until
  private var whole = Long.MaxValue

  /** Sends the request, unless it is on its way already, and waits for the head of its response. */
  def open(): Version = {
    val began = System.nanoTime
    try source.retrying("open")(attempt())
    finally cache.answered(System.nanoTime - began)
  }

  private def attempt(): Version = {
    if (response == null) {
      response = source.get(position, until, etag)
      val version = response.version
      if (etag.isEmpty) etag = version.etag
      // Whoever gave us the length may know another version than the store, which had no reason to refuse.
      end = math.min(until, version.length)
      whole = version.length
    }
    response.version
  }

  /**
   * Fills `into` from `offset` with the next `length` bytes.
   *
   * @return
   *   how many there were: fewer only if the object ends before the range does
   */
  def read(into: Array[Byte], offset: Int, length: Int): Int = {
    val start = position
    val began = System.nanoTime
    val filled = fill(start, into, offset, length)
    cache.fetched(filled.toLong, System.nanoTime - began)
    if (start == 0 && filled == whole && !tags.agrees(etag, into, offset, filled)) askAgain(into, offset, filled)
    filled
  }

  /** Until the tag agrees, or the same bytes come twice. */
  private def askAgain(into: Array[Byte], offset: Int, length: Int): Unit = {
    var left = Comparisons
    var settled = false
    while (!settled) {
      val before = util.Arrays.copyOfRange(into, offset, offset + length)
      source.broke()
      close()
      position = 0
      fill(0, into, offset, length)
      val same = util.Arrays.equals(before, 0, length, into, offset, offset + length)
      if (same) tags.misleading()
      settled = same || tags.agrees(etag, into, offset, length)
      left -= 1
      if (!settled && left == 0)
        throw new IOException(
          s"$length bytes of an object arrived differently ${Comparisons + 1} times, and never as its entity tag " +
            s"${etag.mkString} says: something between here and the store damages them; TLS (an https endpoint) tells what"
        )
    }
  }

  private def fill(start: Long, into: Array[Byte], offset: Int, length: Int): Int =
    source.retrying("read") {
      attempt()
      val wanted = math.min(length.toLong, end - start).toInt
      try
        while (position - start < wanted) {
          if (stopped()) throw new InterruptedIOException("the stream was closed or unbuffered meanwhile")
          val done = (position - start).toInt
          val n = response.read(into, offset + done, wanted - done)
          if (n < 0) throw new EOFException(s"the response ended at $position, before its range did at $end")
          position += n
        }
      catch {
        case e: InterruptedIOException if stopped() => throw e
        // The SDK throws its own, which are no IOExceptions, and the retries understand.
        case NonFatal(e) =>
          source.broke()
          close()
          throw e
      }
      wanted.max(0)
    }

  override def close(): Unit =
    if (response != null) {
      val closing = response
      response = null
      try closing.close()
      // The bytes are here, or lost: how the connection ended changes nothing.
      catch { case _: IOException => () }
    }
}

private object Download {

  /** How often a small object whose bytes and tag differ is asked for again. */
  val Comparisons = 3
}
