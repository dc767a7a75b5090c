package io.penstock.fs.read

import java.nio.ByteBuffer

import io.penstock.fs.Counters
import io.penstock.fs.cache.Page

/**
 * What a reader wants of an object: the bytes from `position`, as many as `into` has room for. The same bytes may be
 * copied more than once, by one thread at a time for each page.
 */
final private[read] class Wanted(layout: Layout, position: Long, into: ByteBuffer) {

  private val base = into.position()
  private val until = position + into.remaining

  val first: Long = layout.pageOf(position)
  val last: Long = layout.pageOf(until - 1)

  /** @return false if the page is damaged */
  def copy(index: Long, page: Page): Boolean =
    overlap(index, layout.end(index)) match {
      case null => true
      case room => page.read(room.from, room.buffer)
    }

  /** @param length bytes of the page that `data` has */
  def copy(index: Long, data: Array[Byte], length: Int): Unit =
    overlap(index, layout.start(index) + length) match {
      case null => ()
      case room =>
        Counters.BytesFromStore.add(room.buffer.remaining.toLong)
        room.buffer.put(data, room.from, room.buffer.remaining)
    }

  final private class Room(val from: Int, val buffer: ByteBuffer)

  private def overlap(index: Long, end: Long): Room = {
    val from = math.max(position, layout.start(index))
    val to = math.min(until, end)
    if (from >= to) null
    else {
      val buffer = into.duplicate()
      buffer.limit(base + (to - position).toInt).position(base + (from - position).toInt)
      new Room((from - layout.start(index)).toInt, buffer)
    }
  }
}

/**
 * Copies what a reader wants out of the pages of its fetch.
 *
 * @param retained
 *   whether the reader needs this page once more, and no tier has kept it
 */
final private[read] class CopySink(layout: Layout, wanted: Wanted, retained: Long => Boolean) extends PageSink {

  /** Where the object ended, if that was before it should have. */
  var end: Long = layout.length

  /** The page that is retained, and its bytes. */
  var page: Long = -1
  var data: Array[Byte] = _
  var length: Int = 0

  override def arrived(index: Long, page: Page): Boolean = wanted.copy(index, page)

  override def fetched(index: Long, data: Array[Byte], length: Int): Boolean = {
    wanted.copy(index, data, length)
    if (length < layout.size(index)) end = layout.start(index) + length
    val takes = retained(index)
    if (takes) {
      page = index
      this.data = data
      this.length = length
    }
    takes
  }
}
