package io.penstock.workloads.terasort

import java.io.OutputStream

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

/** Whole records in one array: what comes out of the shuffle. */
final class Contiguous(content: Array[Byte]) extends RecordBlock {
  override def bytes: Long = content.length
  override def writeTo(out: OutputStream): Unit = out.write(content)
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
