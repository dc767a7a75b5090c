package io.penstock.workloads.clients

import java.nio.{ByteBuffer, ByteOrder}

import io.penstock.workloads.Mixed

/**
 * What a load writes: the bytes of a file follow from the seed, the file's number and the offset alone, so any range of
 * any file can be checked by whoever reads it, and nothing about it need be remembered.
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
