package io.penstock.fs.cache

import java.lang.invoke.{MethodHandles, VarHandle}
import java.nio.{ByteBuffer, ByteOrder}

/**
 * Words of 64 bits that processes share: memory mapped from one file, updated with the processor's atomic instructions.
 * Offsets are in bytes and multiples of 8.
 *
 * Every method throws `InternalError` when the file behind the memory has become shorter or its device fails.
 */
private[cache] final class SharedWords(memory: ByteBuffer) {
  import SharedWords.View

  def size: Int = memory.capacity

  def get(offset: Int): Long = View.getVolatile(memory, offset)

  def set(offset: Int, value: Long): Unit = View.setVolatile(memory, offset, value)

  def compareAndSet(offset: Int, expected: Long, value: Long): Boolean =
    View.compareAndSet(memory, offset, expected, value)

  /** The value after adding. */
  def add(offset: Int, amount: Long): Long = {
    val before: Long = View.getAndAdd(memory, offset, amount)
    before + amount
  }
}

private[cache] object SharedWords {
  private val View: VarHandle = MethodHandles.byteBufferViewVarHandle(classOf[Array[Long]], ByteOrder.nativeOrder)
}
