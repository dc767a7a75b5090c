package io.penstock.workloads.clients

import java.io.{InputStream, OutputStream}
import java.nio.{ByteBuffer, ByteOrder}
import java.util.Arrays

import io.penstock.workloads.Mixed

/**
 * The content of a load's files, which follows from the seed, the file's number and the offset alone: any reader can
 * check any range of any file, without a record of it.
 *
 * A file is a sequence of 64 KiB blocks. Each is one block of random words, the same for all, with a key of its own
 * (from file and block) exclusive-ored to every word: one exclusive or a word instead of drawing it, no two blocks are
 * alike, and neither deduplication nor a compressing store gains anything.
 */
class Content(seed: Long) extends Serializable {
  import Content._

  // Made where it is used: only the seed travels.
  @transient private lazy val block = Array.tabulate(BlockBytes / WordBytes)(Mixed(seed, _))

  /** Writes the bytes of `file` from `offset` on to the first `length` of `into`. */
  def fill(file: Long, offset: Long, into: Array[Byte], length: Int): Unit = {
    val out = ByteBuffer.wrap(into).order(ByteOrder.LITTLE_ENDIAN)
    val ofFile = Mixed(~seed, file)
    var at = 0
    while (at < length) {
      val position = offset + at
      val within = (position % BlockBytes).toInt
      val size = math.min(BlockBytes - within, length - at)
      copy(Mixed(ofFile, position / BlockBytes), within, out, at, size)
      at += size
    }
  }

  /** The eight bytes of `file` at `offset`, a multiple of eight, the first one the lowest. */
  def word(file: Long, offset: Long): Long =
    block((offset % BlockBytes).toInt / WordBytes) ^ Mixed(Mixed(~seed, file), offset / BlockBytes)

  private def copy(key: Long, within: Int, out: ByteBuffer, at: Int, size: Int): Unit = {
    def byte(index: Int): Unit = {
      val word = block((within + index) / WordBytes) ^ key
      val _ = out.put(at + index, (word >>> (java.lang.Byte.SIZE * ((within + index) % WordBytes))).toByte)
    }
    var index = 0
    while (index < size && (within + index) % WordBytes != 0) { byte(index); index += 1 }
    while (index + WordBytes <= size) {
      out.putLong(at + index, block((within + index) / WordBytes) ^ key)
      index += WordBytes
    }
    while (index < size) { byte(index); index += 1 }
  }
}

object Content {
  val BlockBytes: Int = 64 << 10
  private val WordBytes = java.lang.Long.BYTES
}

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
   * Read to the end, or to the first byte that differs from `file`'s, and return the difference; None where the stream
   * holds exactly the first `length` bytes. `arrived` gets the size of each chunk before it is compared.
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
