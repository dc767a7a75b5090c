package io.penstock.fs.cache

import java.lang.invoke.{MethodHandle, MethodHandles, MethodType}
import java.nio.ByteBuffer
import java.util.concurrent.atomic.{AtomicBoolean, AtomicInteger}
import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue}

import scala.annotation.tailrec

import io.penstock.fs.metrics.Counters

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
    tier.adaptiveCosts.fold(sound)(_.reading(size.toLong)(sound))
  }
}

private[cache] object MappedPage {
  private val Unmapped = -1

  private val Scratch = ThreadLocal.withInitial[Array[Byte]](() => new Array[Byte](PageFile.ChecksumBlock))
}

/**
 * The pages this process has mapped, so that one that is found again costs no system call.
 *
 * At most `limit` of them (the kernel allows a process 65 530 mappings in all). The memory of a page that has been
 * evicted meanwhile is given back by the second [[sweep]] after that, or the first one after its last reader is done: a
 * reader that closes its page while another of its threads still copies from it finds the memory there.
 */
private[cache] final class Mappings(limit: Int) {

  private val byKey = new ConcurrentHashMap[PageKey, MappedPage]

  // Every mapped page once, and what has been retired since the hand last passed.
  private val ring = new ConcurrentLinkedQueue[MappedPage]
  private val ringSize = new AtomicInteger

  private val retired = new ConcurrentLinkedQueue[MappedPage]
  private val retiredSize = new AtomicInteger

  /** The page with a pin for the caller, or null if it is not mapped. */
  def pinned(key: PageKey): MappedPage = {
    val page = byKey.get(key)
    if (page == null || !page.pin()) null
    else {
      if (!page.recent) page.recent = true
      page
    }
  }

  /** Shares a page just mapped, on which the caller has a pin: it gets the one to use, with a pin. */
  @tailrec def share(page: MappedPage): MappedPage = {
    val first = byKey.putIfAbsent(page.key, page)
    if (first == null) {
      ring.add(page)
      if (ringSize.incrementAndGet() > limit) shrink()
      page
    } else if (first.pin()) {
      page.unpin()
      page.unmap()
      first
    } else share(page)
  }

  /** Nobody finds the page here any more. */
  def retire(page: MappedPage): Unit =
    if (byKey.remove(page.key, page)) {
      retired.add(page)
      if (retiredSize.incrementAndGet() > Mappings.MaxRetired) unmapRetired(1)
    }

  /** Retires what the tiers no longer hold and unmaps what was retired before. */
  def sweep(): Unit = {
    unmapRetired(retiredSize.get)
    byKey.values.forEach(page => if (!page.tier.holds(page.slot, page.key)) retire(page))
  }

  def size: Int = byKey.size

  /** The second chance: a page found since the hand last passed goes round again. */
  private def shrink(): Unit = {
    var page = ring.poll()
    var passed = 0
    while (page != null && page.recent && passed < limit) {
      page.recent = false
      if (byKey.get(page.key) eq page) {
        ring.add(page)
        page = ring.poll()
      }
      passed += 1
    }
    if (page != null) {
      ringSize.decrementAndGet()
      retire(page)
    }
  }

  private def unmapRetired(count: Int): Unit = {
    var left = count
    var page = if (left > 0) retired.poll() else null
    while (page != null) {
      if (page.unmap()) retiredSize.decrementAndGet() else retired.add(page)
      left -= 1
      page = if (left > 0) retired.poll() else null
    }
  }
}

private[cache] object Mappings {

  /** Retired pages beyond this many are unmapped at once: a quarter of the default limit. */
  private val MaxRetired = 4096
}

/** A page of a tier, as one reader has it. */
private[cache] final class TierPage(mapped: MappedPage, mappings: Mappings) extends Page {

  private val closed = new AtomicBoolean

  override def length: Int = mapped.length

  override def read(position: Int, into: Array[Byte], offset: Int, length: Int): Boolean =
    serve(length)(mapped.copy(position, into, offset, length))

  override def read(position: Int, into: ByteBuffer): Boolean =
    serve(into.remaining)(mapped.copy(position, into))

  override def close(): Unit = if (closed.compareAndSet(false, true)) mapped.unpin()

  private def serve(length: Int)(copy: => Boolean): Boolean = {
    if (closed.get) throw new IllegalStateException("the page has been closed")
    val sound =
      try {
        val copied = copy
        Faults.surface()
        copied
      } catch {
        // So the machine says that the file has become shorter under the mapping, or that its device fails.
        case _: InternalError => false
      }
    if (sound) mapped.tier.settings.kind.bytesRead.add(length.toLong)
    else {
      mappings.retire(mapped)
      mapped.tier.damaged(mapped)
    }
    sound
  }
}

/** A page that no tier took, for those who were waiting for it. */
private[cache] final class HeapPage(bytes: Array[Byte]) extends Page {

  override def length: Int = bytes.length

  override def read(position: Int, into: Array[Byte], offset: Int, length: Int): Boolean = {
    System.arraycopy(bytes, position, into, offset, length)
    Counters.BytesFromStore.add(length.toLong)
    true
  }

  override def read(position: Int, into: ByteBuffer): Boolean = {
    val length = into.remaining
    into.put(bytes, position, length)
    Counters.BytesFromStore.add(length.toLong)
    true
  }

  override def close(): Unit = ()
}

/**
 * Gives mapped memory back at once. The collector would do it too, but only when the heap happens to fill up, and until
 * then the pages of removed files stay in memory.
 */
private[cache] object Unmapping {

  /** `sun.misc.Unsafe.invokeCleaner`: in a module that every Java since 9 opens to all. */
  private val cleaner: MethodHandle = {
    val unsafe = Class.forName("sun.misc.Unsafe")
    val instance = unsafe.getDeclaredField("theUnsafe")
    instance.setAccessible(true)
    MethodHandles.lookup
      .findVirtual(unsafe, "invokeCleaner", MethodType.methodType(Void.TYPE, classOf[ByteBuffer]))
      .bindTo(instance.get(null))
  }

  /** Nobody may touch the buffer afterwards, nor any view of it: that would end the process. */
  def unmap(mapped: ByteBuffer): Unit = cleaner.invokeWithArguments(mapped): Unit
}
