package io.penstock.workloads.terasort

import java.io.{EOFException, InputStream, OutputStream}

/**
 * Some records on their way: what tasks hand to the shuffle and to the output. Records are never objects of their own:
 * at 100 bytes each, making and collecting them costs more than sorting them.
 */
trait RecordBlock {

  /** A multiple of `Record.Bytes`. */
  def bytes: Long

  /** The records one after the other, without a header. */
  def writeTo(out: OutputStream): Unit
}

/** The next records of `in`, through `batch`: what comes out of the shuffle. They can be written once, and must be. */
final class Streamed(in: InputStream, override val bytes: Long, batch: Array[Byte]) extends RecordBlock {
  private var left = bytes

  /** Whether all of it was read, so that what follows can be. */
  def done: Boolean = left == 0

  override def writeTo(out: OutputStream): Unit =
    while (left > 0) {
      val read = in.read(batch, 0, math.min(left, batch.length.toLong).toInt)
      if (read < 0) throw new EOFException(s"$left bytes of a block of $bytes are missing")
      out.write(batch, 0, read)
      left -= read
    }
}

/** The records of `buffer` that `order` names from `from` to before `until`, in that order. */
final class Gathered(buffer: RecordBuffer, order: Array[Int], from: Int, until: Int) extends RecordBlock {
  override def bytes: Long = (until - from).toLong * Record.Bytes

  override def writeTo(out: OutputStream): Unit = {
    val batch = Record.batch()
    var next = from
    while (next < until) {
      val end = math.min(until, next + Record.Batch)
      var filled = 0
      while (next < end) {
        buffer.copy(order(next), batch, filled)
        filled += Record.Bytes
        next += 1
      }
      out.write(batch, 0, filled)
    }
  }
}

/** Records `first` to before `first + count`, made while they are written; `wrote` is told of each batch. */
final class Generated(generator: RecordGenerator, first: Long, count: Long, wrote: Tally => Unit) extends RecordBlock {
  override def bytes: Long = count * Record.Bytes

  override def writeTo(out: OutputStream): Unit = {
    val batch = Record.batch()
    for (done <- 0L until count by Record.Batch.toLong) {
      val records = math.min(count - done, Record.Batch.toLong).toInt
      generator.fill(first + done, records, batch)
      wrote(Tally.of(batch, records * Record.Bytes))
      out.write(batch, 0, records * Record.Bytes)
    }
  }
}
