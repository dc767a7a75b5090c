package io.penstock.fs.cache

import java.lang.invoke.{MethodHandle, MethodHandles, MethodType}
import java.nio.ByteBuffer

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
