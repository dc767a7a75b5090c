package io.penstock.skipping.index

import java.nio.{ByteBuffer, ByteOrder}

import org.apache.spark.sql.catalyst.expressions.XXH64
import org.apache.spark.unsafe.Platform

import io.penstock.skipping.model.{IndexedColumn, Value}

/**
 * The statistics of one column in one file. Every part is optional; a file whose part is missing is read.
 *
 * @param nulls
 *   the number of rows in which the column is null
 * @param minimum
 *   a lower bound; smaller than every value where Parquet cut a long string
 * @param maximum
 *   an upper bound
 * @param values
 *   every distinct value that is not null, in ascending order (of signed numbers; of unsigned bytes)
 * @param bloom
 *   a filter of every value that is not null
 */
case class ColumnEntry(
    nulls: Option[Long] = None,
    minimum: Option[Value] = None,
    maximum: Option[Value] = None,
    values: Option[Seq[Value]] = None,
    bloom: Option[BloomFilter] = None
)

/**
 * An index's entry of one file. A file of the same directory and name but another length or modification time is
 * another file, without an entry.
 *
 * @param directory
 *   relative to the table's root, without slashes at its ends; empty for the root itself
 * @param modificationMs
 *   the time in the file system's listing
 * @param columns
 *   the statistics by the column's name; missing ones are unknown
 */
case class FileEntry(
    directory: String,
    name: String,
    length: Long,
    modificationMs: Long,
    rows: Long,
    columns: Map[String, ColumnEntry]
)

/** The kinds of statistics of a column. */
sealed abstract class Kind(val name: String)

object Kind {

  /** The smallest and the greatest value and the number of nulls: from the footers, at no cost. */
  case object MinMax extends Kind("minmax")

  /** The distinct values, where they are few: from dictionaries where the files have them, else from the data. */
  case object Values extends Kind("values")

  /** A Bloom filter of the values, where they are not too many: from the data. */
  case object Bloom extends Kind("bloom")

  val all: Seq[Kind] = Seq(MinMax, Values, Bloom)

  /** Throws an `IllegalArgumentException` where there is no such kind. */
  def of(name: String): Kind = all
    .find(_.name.equalsIgnoreCase(name))
    .getOrElse(
      throw new IllegalArgumentException(
        s"There is no kind of skipping index called $name: say one of ${all.map(_.name).mkString(", ")}"
      )
    )
}

/**
 * A column of an index, and the kinds of its statistics.
 *
 * @param why
 *   a sentence for users
 * @param asked
 *   where the column was chosen for its queries: the share of files, 0 to 1, that may match them
 */
case class PlannedColumn(column: IndexedColumn, kinds: Set[Kind], why: String, asked: Option[Double] = None)

/**
 * A Bloom filter of a file's values, which never denies one of them. A split-block filter as in the Parquet format, bit
 * for bit (`BloomFilter.md` of parquet-format; Putze, Sanders, Singler 2007): blocks of 256 bits, of which a value sets
 * eight in one block. One thread fills it; then any number may share it.
 *
 * Parquet's own class (`BlockSplitBloomFilter`, 1.16) keeps the bits that it looks for in a field, so that of two
 * queries that ask it at once one may be denied a value that is there, and its rows be lost.
 */
final class BloomFilter private (words: Array[Int]) extends Serializable {

  def put(value: Value): Unit = put(BloomFilter.hash(value))

  def mightContain(value: Value): Boolean = mightContain(BloomFilter.hash(value))

  private[skipping] def put(hash: Long): Unit = {
    val block = blockOf(hash)
    var i = 0
    while (i < BloomFilter.WordsPerBlock) {
      words(block + i) |= BloomFilter.bit(hash, i)
      i += 1
    }
  }

  private[skipping] def mightContain(hash: Long): Boolean = {
    val block = blockOf(hash)
    var i = 0
    while (i < BloomFilter.WordsPerBlock && (words(block + i) & BloomFilter.bit(hash, i)) != 0) i += 1
    i == BloomFilter.WordsPerBlock
  }

  /** The filter as in Parquet files: little-endian words. */
  def toBytes: Array[Byte] = {
    val buffer = ByteBuffer.allocate(words.length * Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN)
    buffer.asIntBuffer.put(words)
    buffer.array
  }

  /** The start of a hash's block: its upper half, scaled to the number of blocks. */
  private def blockOf(hash: Long): Int =
    ((hash >>> 32) * (words.length / BloomFilter.WordsPerBlock) >>> 32).toInt * BloomFilter.WordsPerBlock
}

object BloomFilter {
  private val WordsPerBlock = 8
  private val BlockBytes = WordsPerBlock * Integer.BYTES

  /** Larger ones cost more memory in the driver than the reading of their file is worth. */
  private val MaxBlocks = (1 << 20) / BlockBytes

  // The salt of the format's specification.
  private val Salt =
    Array(0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31)

  /**
   * An empty filter for this number of distinct values with this share of false positives (0.01 to 1); with more of
   * them where it would need more than 1 MiB.
   */
  def sized(distinct: Long, falsePositives: Double): BloomFilter = {
    // The specification's formula for eight bits a value.
    val bits = -8.0 * math.max(1, distinct) / math.log(1 - math.pow(falsePositives, 1.0 / 8))
    val blocks = math.ceil(bits / (BlockBytes * 8)).toLong
    new BloomFilter(new Array[Int](blocks.min(MaxBlocks).max(1).toInt * WordsPerBlock))
  }

  /** The filter of [[BloomFilter.toBytes]]; None where these bytes are none. */
  def fromBytes(bytes: Array[Byte]): Option[BloomFilter] =
    Option.when(bytes.nonEmpty && bytes.length % BlockBytes == 0) {
      val words = new Array[Int](bytes.length / Integer.BYTES)
      ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).asIntBuffer.get(words)
      new BloomFilter(words)
    }

  private[skipping] def hash(value: Value): Long = value match {
    case Value.Integral(number) => hash(number)
    case Value.Bytes(bytes) => hash(bytes)
  }

  private[skipping] def hash(number: Long): Long = XXH64.hashLong(number, 0)

  private[skipping] def hash(bytes: Array[Byte]): Long =
    XXH64.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET.toLong, bytes.length, 0)

  private def bit(hash: Long, word: Int): Int = 1 << (hash.toInt * Salt(word) >>> 27)
}
