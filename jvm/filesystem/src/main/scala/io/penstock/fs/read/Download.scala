package io.penstock.fs.read

import java.io.{Closeable, EOFException, IOException, InterruptedIOException}

import scala.util.control.NonFatal

/**
 * The bytes of one range, front to back. A response that breaks off in the middle is asked for again from there, as
 * often as the source's retries allow without a page's progress; it is never a mixture of two versions.
 *
 * @param stopped
 *   asked between two reads: whether nobody wants the bytes any more
 */
final private[read] class Download(
    source: ObjectSource,
    from: Long,
    until: Long,
    expected: Option[String],
    stopped: () => Boolean
) extends Closeable {

  private var position = from
  private var etag = expected
  private var response: RangeResponse = _
  private var end = until

  /** Sends the request, unless it is on its way already, and waits for the head of its response. */
  def open(): Version = source.retrying("open")(attempt())

  private def attempt(): Version = {
    if (response == null) {
      response = source.get(position, until, etag)
      val version = response.version
      if (etag.isEmpty) etag = version.etag
      // Whoever gave us the length may know another version than the store, which had no reason to refuse.
      end = math.min(until, version.length)
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
