package io.penstock.workloads.clients

import java.io.{InputStream, OutputStream}
import java.util.Arrays

/**
 * Content through streams, a MiB at a time. For one thread: it has buffers, and counts the time that making and
 * comparing bytes took, which is time in which the stream had nothing to do.
 */
class ContentStream(content: Content) {
  import ContentStream.ChunkBytes

  private val buffer = new Array[Byte](ChunkBytes)
  private val expected = new Array[Byte](ChunkBytes)
  private var spent = 0L

  /** Time spent on content so far, not on the store. */
  def contentNanos: Long = spent

  /** Writes the first `length` bytes of `file`; closes nothing. */
  def write(out: OutputStream, file: Long, length: Long): Unit =
    for (offset <- 0L until length by ChunkBytes.toLong) {
      val size = math.min(ChunkBytes, length - offset).toInt
      onContent(content.fill(file, offset, buffer, size))
      out.write(buffer, 0, size)
    }

  /**
   * Reads to the end, or to the first byte that is not `file`'s, and says what is wrong; none where the stream holds
   * exactly the first `length` bytes. `arrived` is told of each chunk before it is compared.
   */
  def difference(in: InputStream, file: Long, length: Long)(arrived: Int => Unit): Option[String] = {
    var offset = 0L
    while (offset < length) {
      val size = math.min(ChunkBytes, length - offset).toInt
      val read = in.readNBytes(buffer, 0, size)
      arrived(read)
      val at = onContent {
        content.fill(file, offset, expected, read)
        Arrays.mismatch(buffer, 0, read, expected, 0, read)
      }
      if (at >= 0) return Some(s"differs at byte ${offset + at}")
      if (read < size) return Some(s"ends after ${offset + read} of $length bytes")
      offset += read
    }
    Option.when(in.read() >= 0)(s"goes on after its $length bytes")
  }

  private def onContent[T](work: => T): T = {
    val started = System.nanoTime()
    try work
    finally spent += System.nanoTime() - started
  }
}

object ContentStream {
  private val ChunkBytes = 1 << 20
}
