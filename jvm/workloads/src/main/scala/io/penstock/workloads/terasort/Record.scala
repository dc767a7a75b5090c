package io.penstock.workloads.terasort

import java.nio.ByteBuffer

/** The sort benchmark's record: 100 bytes, ordered by the first ten as unsigned bytes. */
object Record {
  val Bytes = 100
  val KeyBytes = 10

  /** How many records are read or written at a time: a little less than 64 KiB, which stays in a core's own cache. */
  val Batch = 640

  def batch(): Array[Byte] = new Array[Byte](Batch * Bytes)
}

/** A record's key as two unsigned numbers that are in the order of its bytes. */
final case class Key(prefix: Long, tail: Int) {

  def compare(other: Key): Int = {
    val first = java.lang.Long.compareUnsigned(prefix, other.prefix)
    if (first != 0) first else Integer.compare(tail, other.tail)
  }

  /** The ten bytes in hexadecimal. */
  override def toString: String = "%016x%04x".format(prefix, tail)
}

object Key {

  /** The tail is of two bytes, so that it is never negative. */
  def of(bytes: Array[Byte], offset: Int): Key = {
    val numbers = ByteBuffer.wrap(bytes)
    Key(numbers.getLong(offset), numbers.getShort(offset + 8) & 0xffff)
  }
}
