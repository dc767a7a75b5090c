package io.penstock.fs.read

import java.util.concurrent.{ArrayBlockingQueue, ConcurrentHashMap}

/**
 * Arrays of one page, used again by all streams of this JVM. Taking never waits; at most [[PageBuffers.Kept]] idle ones
 * of a size are kept.
 */
final private[read] class PageBuffers private (size: Int) {

  private val idle = new ArrayBlockingQueue[Array[Byte]](PageBuffers.Kept)

  def take(): Array[Byte] = {
    val one = idle.poll()
    if (one == null) new Array[Byte](size) else one
  }

  /** The caller must not use `buffer` again. */
  def give(buffer: Array[Byte]): Unit = idle.offer(buffer)
}

private[read] object PageBuffers {

  val Kept = 16

  private val bySize = new ConcurrentHashMap[Int, PageBuffers]

  def of(size: Int): PageBuffers = bySize.computeIfAbsent(size, new PageBuffers(_))
}
