package io.penstock.skipping.index

import java.nio.{ByteBuffer, ByteOrder}

import org.apache.spark.sql.catalyst.expressions.XXH64
import org.apache.spark.unsafe.Platform

/**
 * Which values a file may hold: never says no to one that it does hold. A split-block Bloom filter, bit for bit the one
 * of the Parquet format (`BloomFilter.md` of parquet-format; Putze, Sanders, Singler 2007): blocks of 256 bits, of
 * which a value sets eight in one block. To be filled by one thread; then shared by any number.
 */
final class Bloom private (words: Array[Int]) extends Serializable {

  def put(value: Value): Unit = put(Bloom.hash(value))

  def mightContain(value: Value): Boolean = mightContain(Bloom.hash(value))

  private[index] def put(hash: Long): Unit = {
    val block = blockOf(hash)
    var i = 0
    while (i < Bloom.WordsPerBlock) {
      words(block + i) |= Bloom.bit(hash, i)
      i += 1
    }
  }

  private[index] def mightContain(hash: Long): Boolean = {
    val block = blockOf(hash)
    var i = 0
    while (i < Bloom.WordsPerBlock && (words(block + i) & Bloom.bit(hash, i)) != 0) i += 1
    i == Bloom.WordsPerBlock
  }

  /** For the index's files: little-endian words, as Parquet writes them. */
  def toBytes: Array[Byte] = {
    val buffer = ByteBuffer.allocate(words.length * Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN)
    buffer.asIntBuffer.put(words)
    buffer.array
  }

  /** Where the block starts: the hash's upper half, scaled to the number of blocks. */
  private def blockOf(hash: Long): Int =
    ((hash >>> 32) * (words.length / Bloom.WordsPerBlock) >>> 32).toInt * Bloom.WordsPerBlock
}

object Bloom {
  private val WordsPerBlock = 8
  private val BlockBytes = WordsPerBlock * Integer.BYTES

  /** Larger ones cost more memory in the driver than the reading of their file is worth. */
  private val MaxBlocks = (1 << 20) / BlockBytes

  // Of the format's specification.
  private val Salt =
    Array(0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31)

  /**
   * An empty filter for so many distinct values, which says yes to about this share (0.01 to 1) of all others; to more
   * of them where it would need more than 1 MiB.
   */
  def sized(distinct: Long, falsePositives: Double): Bloom = {
    // Formula of the format's specification for eight bits a value.
    val bits = -8.0 * math.max(1, distinct) / math.log(1 - math.pow(falsePositives, 1.0 / 8))
    val blocks = math.ceil(bits / (BlockBytes * 8)).toLong
    new Bloom(new Array[Int](blocks.min(MaxBlocks).max(1).toInt * WordsPerBlock))
  }

  /** What [[Bloom.toBytes]] made. None where it cannot be one, which says nothing about any value. */
  def fromBytes(bytes: Array[Byte]): Option[Bloom] =
    Option.when(bytes.nonEmpty && bytes.length % BlockBytes == 0) {
      val words = new Array[Int](bytes.length / Integer.BYTES)
      ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).asIntBuffer.get(words)
      new Bloom(words)
    }

  private[index] def hash(value: Value): Long = value match {
    case Value.Integral(number) => hash(number)
    case Value.Bytes(bytes) => hash(bytes)
  }

  private[index] def hash(number: Long): Long = XXH64.hashLong(number, 0)

  private[index] def hash(bytes: Array[Byte]): Long =
    XXH64.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET.toLong, bytes.length, 0)

  private def bit(hash: Long, word: Int): Int = 1 << (hash.toInt * Salt(word) >>> 27)
}
