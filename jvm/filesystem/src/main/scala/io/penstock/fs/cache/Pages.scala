package io.penstock.fs.cache

import java.nio.ByteBuffer
import java.util.concurrent.atomic.AtomicBoolean

import io.penstock.fs.Counters

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
