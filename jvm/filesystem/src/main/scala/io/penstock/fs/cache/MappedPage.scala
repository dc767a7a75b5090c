package io.penstock.fs.cache

import java.nio.ByteBuffer
import java.util.concurrent.atomic.AtomicInteger

/**
 * A page file in memory, shared by all readers of this process. Each block is checked the first time one of them needs
 * it. Pinned by its readers: memory that is unmapped under a reader would kill the process.
 */
private[cache] final class MappedPage(
    val key: PageKey,
    val tier: Tier,
    val slot: Int,
    file: ByteBuffer,
    val length: Int,
    checksums: Array[Int]
) {
  import MappedPage._

  private val pins = new AtomicInteger(1)

  // Written without a lock: whoever does not see another's mark checks the block once more.
  private val checked = new Array[Boolean](checksums.length)

  /** Set by every find, cleared by the mappings' own hand. */
  @volatile var recent = false

  /** Takes a pin, to be given back with [[unpin]]; false if the page has been unmapped. */
  def pin(): Boolean = {
    var count = pins.get
    while (count != Unmapped && !pins.compareAndSet(count, count + 1)) count = pins.get
    count != Unmapped
  }

  def unpin(): Unit = pins.decrementAndGet(): Unit

  /** Gives the memory back if nobody has a pin. */
  def unmap(): Boolean = pins.compareAndSet(0, Unmapped) && {
    Unmapping.unmap(file)
    true
  }

  /** Copies bytes of the page; false if a block of them is damaged. */
  def copy(position: Int, into: Array[Byte], offset: Int, length: Int): Boolean = {
    require(position >= 0 && length >= 0 && position + length <= this.length, s"$position + $length of ${this.length}")
    var sound = true
    var at = position
    val end = position + length
    while (sound && at < end) {
      val block = at / PageFile.ChecksumBlock
      if (checked(block)) {
        val next = firstUncheckedAfter(block, end)
        file.get(at, into, offset + at - position, next - at)
        at = next
      } else {
        val from = block * PageFile.ChecksumBlock
        val size = blockSize(block)
        val next = math.min(from + size, end)
        val target = offset + at - position
        // The checksum is taken of the copy: the processor's instruction for it cannot survive a fault of mapped memory.
        if (next - at == size) sound = load(block, into, target)
        else {
          val scratch = Scratch.get
          sound = load(block, scratch, 0)
          System.arraycopy(scratch, at - from, into, target, next - at)
        }
        checked(block) = sound
        at = next
      }
    }
    sound
  }

  /** As the other, up to the buffer's limit; moves its position if all was sound. */
  def copy(position: Int, into: ByteBuffer): Boolean = {
    val length = into.remaining
    val sound =
      if (into.hasArray) copy(position, into.array, into.arrayOffset + into.position(), length)
      else
        check(position, length) && {
          into.put(into.position(), file, position, length)
          true
        }
    if (sound) into.position(into.position() + length)
    sound
  }

  /** Whether every block of these bytes is sound. */
  def check(position: Int, length: Int): Boolean = {
    require(position >= 0 && position + length <= this.length, s"$position + $length of ${this.length}")
    val blocks =
      if (length == 0) 0 until 0
      else position / PageFile.ChecksumBlock to (position + length - 1) / PageFile.ChecksumBlock
    blocks.forall { block =>
      if (!checked(block)) checked(block) = load(block, Scratch.get, 0)
      checked(block)
    }
  }

  private def firstUncheckedAfter(block: Int, end: Int): Int = {
    var next = block + 1
    while (next < checked.length && checked(next)) next += 1
    math.min(next * PageFile.ChecksumBlock, end)
  }

  private def blockSize(block: Int): Int =
    math.min(PageFile.ChecksumBlock, length - block * PageFile.ChecksumBlock)

  /** Copies a block; false if it is damaged. */
  private def load(block: Int, into: Array[Byte], offset: Int): Boolean = {
    val size = blockSize(block)
    def sound = {
      file.get(block * PageFile.ChecksumBlock, into, offset, size)
      PageFile.checksum(ByteBuffer.wrap(into, offset, size)) == checksums(block)
    }
    tier.costs.fold(sound)(_.reading(size.toLong)(sound))
  }
}

private[cache] object MappedPage {
  private val Unmapped = -1

  private val Scratch = ThreadLocal.withInitial[Array[Byte]](() => new Array[Byte](PageFile.ChecksumBlock))
}
