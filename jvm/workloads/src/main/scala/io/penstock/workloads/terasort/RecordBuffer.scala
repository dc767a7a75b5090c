package io.penstock.workloads.terasort

import java.io.{EOFException, InputStream, OutputStream}
import java.nio.ByteBuffer
import java.util.concurrent.ConcurrentLinkedDeque

/**
 * Records in memory, numbered in the order they were appended. It grows in segments, so that nothing is copied when it
 * does, and may hold more than the two GiB of one array.
 *
 * To be closed once nobody reads it any more. The segments are then used by the next buffers of the process: memory
 * that is new for every task is zeroed first and then copied about by the collector.
 */
final class RecordBuffer extends AutoCloseable {
  import RecordBuffer._

  private var segments = Array.empty[Array[Byte]]
  // For reading numbers; the same arrays.
  private var views = Array.empty[ByteBuffer]
  private var filled = 0L

  /** How many whole records there are. */
  def count: Int = (filled / Record.Bytes).toInt

  override def close(): Unit = {
    segments.foreach(unused.push)
    segments = Array.empty
    views = Array.empty
    filled = 0
  }

  /** Appends what is written to it. */
  val sink: OutputStream = new OutputStream {
    override def write(one: Int): Unit = write(Array(one.toByte), 0, 1)

    override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
      var done = 0
      while (done < length) {
        val room = math.min(length - done, roomInSegment())
        System.arraycopy(bytes, offset + done, segments.last, used, room)
        filled += room
        done += room
      }
    }
  }

  /** Appends the next `length` bytes of `in`; `EOFException` where it ends before. */
  def append(in: InputStream, length: Long): Unit = {
    val end = filled + length
    while (filled < end) {
      val room = math.min(end - filled, roomInSegment().toLong).toInt
      val read = in.read(segments.last, used, math.min(room, ReadBytes))
      if (read < 0) throw new EOFException(s"${end - filled} bytes of $length are missing")
      filled += read
    }
  }

  /** The key's first eight bytes, an unsigned number. */
  def prefix(record: Int): Long = views(record >>> SegmentBits).getLong(offset(record))

  /** The key's last two bytes. */
  def tail(record: Int): Int = views(record >>> SegmentBits).getShort(offset(record) + 8) & 0xffff

  /** By their keys, as unsigned bytes. */
  def compare(one: Int, other: Int): Int = {
    val first = java.lang.Long.compareUnsigned(prefix(one), prefix(other))
    if (first != 0) first else Integer.compare(tail(one), tail(other))
  }

  def copy(record: Int, target: Array[Byte], at: Int): Unit =
    System.arraycopy(segments(record >>> SegmentBits), offset(record), target, at, Record.Bytes)

  private def offset(record: Int): Int = (record & (SegmentRecords - 1)) * Record.Bytes

  /** How much of the last segment is used. */
  private def used: Int = (filled - (segments.length - 1L) * SegmentBytes).toInt

  private def roomInSegment(): Int = {
    if (filled == segments.length.toLong * SegmentBytes) {
      val segment = Option(unused.poll()).getOrElse(new Array[Byte](SegmentBytes))
      segments :+= segment
      views :+= ByteBuffer.wrap(segment)
    }
    SegmentBytes - used
  }
}

object RecordBuffer {
  private val SegmentBits = 15
  private val SegmentRecords = 1 << SegmentBits
  private val SegmentBytes = SegmentRecords * Record.Bytes

  /** Never more than the process had in use at once. */
  private val unused = new ConcurrentLinkedDeque[Array[Byte]]

  /** Java reads a file through a native buffer of the size asked for; a small one is not allocated anew each time. */
  private val ReadBytes = 64 * 1024
}
