package io.penstock.workloads.terasort

import java.util.zip.CRC32

import org.apache.spark.util.AccumulatorV2

/** How many records, and the sum of the CRC-32 of each: the same for the same records in whatever order. */
final case class Tally(records: Long, checksum: Unsigned128) {
  def +(other: Tally): Tally = Tally(records + other.records, checksum + other.checksum)
}

object Tally {
  val Empty: Tally = Tally(0, Unsigned128.Zero)

  /** Of the whole records in the first `length` bytes. */
  def of(bytes: Array[Byte], length: Int): Tally = {
    val crc = new CRC32
    val count = length / Record.Bytes
    // A batch is far from the 2^32 records whose sum could need more than 64 bits.
    var sum = 0L
    var index = 0
    while (index < count) {
      crc.reset()
      crc.update(bytes, index * Record.Bytes, Record.Bytes)
      sum += crc.getValue
      index += 1
    }
    Tally(count, Unsigned128(0, sum))
  }
}

/** Adds up what tasks wrote. Spark counts each task of an action once, however often it was attempted. */
final class TallyAccumulator extends AccumulatorV2[Tally, Tally] {
  private var sum = Tally.Empty

  override def isZero: Boolean = sum == Tally.Empty
  override def reset(): Unit = sum = Tally.Empty
  override def add(more: Tally): Unit = sum += more
  override def merge(other: AccumulatorV2[Tally, Tally]): Unit = sum += other.value
  override def value: Tally = sum

  override def copy(): TallyAccumulator = {
    val same = new TallyAccumulator
    same.add(sum)
    same
  }
}
