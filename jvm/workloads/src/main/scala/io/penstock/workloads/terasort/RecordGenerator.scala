package io.penstock.workloads.terasort

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.US_ASCII

/**
 * Records in the binary format of gensort up to 1.4, which is that of Hadoop's TeraGen, byte for byte: ten random bytes
 * of key, the record number in hexadecimal, filler. What a record is depends on its number alone.
 *
 * `skewed` keys are those of `gensort -s`: the leading bits of three keys in four are those of a key that is common to
 * all records whose numbers have as many binary digits. How many bits differs from record to record, up to 48.
 */
final class RecordGenerator(skewed: Boolean) {
  import RecordGenerator._

  /** Puts `count` records into `target`, from its start, beginning with record number `first`. */
  def fill(first: Long, count: Int, target: Array[Byte]): Unit = {
    val random = new RandomNumbers(first)
    val into = ByteBuffer.wrap(target)
    var index = 0
    while (index < count) {
      val at = index * Record.Bytes
      System.arraycopy(template, 0, target, at, Record.Bytes)
      into.putLong(at, if (skewed) skew(random, first + index) else random.upper)
      into.putShort(at + 8, (random.lower >>> 48).toShort)
      number(first + index, target, at)
      fill(random.lower, into, at)
      random.advance()
      index += 1
    }
  }

  private def skew(random: RandomNumbers, record: Long): Long = {
    val bits = (random.lower >>> 32).toInt & 0x3f
    if (bits == 0 || bits > SkewBits) random.upper
    else {
      val kept = -1L >>> bits
      (prefixes(64 - java.lang.Long.numberOfLeadingZeros(record)) & ~kept) | (random.upper & kept)
    }
  }

  private def number(record: Long, target: Array[Byte], at: Int): Unit = {
    var rest = record
    var digit = at + NumberEnd
    while (rest != 0) {
      digit -= 1
      target(digit) = hexadecimal((rest & 0xf).toInt)
      rest >>>= 4
    }
  }

  /** Each of the random number's last twelve digits four times. */
  private def fill(lower: Long, into: ByteBuffer, at: Int): Unit = {
    var digit = 0
    while (digit < 12) {
      into.putInt(at + Filler + 4 * digit, hexadecimal((lower >>> (44 - 4 * digit)).toInt & 0xf) * 0x01010101)
      digit += 1
    }
  }
}

object RecordGenerator {
  private val NumberStart = 12
  private val NumberEnd = NumberStart + 32
  private val Filler = 48
  private val SkewBits = 48

  private val hexadecimal = "0123456789ABCDEF".getBytes(US_ASCII)

  /** What all records have in common: marks between the parts, and a record number of zero. */
  private val template: Array[Byte] = {
    val record = ByteBuffer.allocate(Record.Bytes)
    record.putShort(Record.KeyBytes, 0x0011)
    for (at <- NumberStart until NumberEnd) record.put(at, '0'.toByte)
    record.putInt(NumberEnd, 0x8899aabb)
    record.putInt(Record.Bytes - 4, 0xccddeeff)
    record.array
  }

  /** The key that numbers of so many binary digits share: gensort's table is the keys of the first records. */
  private val prefixes = Array.tabulate(64)(digits => RandomNumbers.at(digits.toLong).high)
}
