package io.penstock.workloads.terasort

import java.math.BigInteger
import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.US_ASCII

import scala.collection.immutable.ListMap

import com.fasterxml.jackson.annotation.JsonIgnoreProperties
import org.apache.hadoop.fs.Path
import org.apache.spark.SparkContext
import org.apache.spark.sql.SparkSession

import io.penstock.application.{Application, Arguments, UsageError}
import io.penstock.workloads.{Manifest, Report}

/**
 * TeraGen: the first records of the sort benchmark, in files of the object size, with a manifest of their number and
 * checksum.
 *
 * Data at `--location` is replaced. An interrupted generation leaves no manifest.
 */
object TeraGen extends Application {

  private val usage = "TeraGen --records N --location URI --report URI [--object-size 128m] [--skewed true|false]"
  private val known = Set("records", "location", "report", "object-size", "skewed")

  override def run(arguments: Seq[String]): Int = {
    val options = Arguments.parse(arguments, known, usage)
    options.required("records")
    val records = options.long("records", default = 1, atLeast = 1)
    val location = options.required("location").stripSuffix("/")
    val objectBytes = options.size("object-size", "128m")
    val skewed = options.read("skewed", "true or false")(_.toBooleanOption).getOrElse(false)
    if (objectBytes < Record.Bytes)
      throw new UsageError(s"--object-size is less than a record of ${Record.Bytes} bytes.")
    val report = options.required("report")

    val spark = SparkSession.builder().appName(s"TeraGen, $records records").getOrCreate()
    val context = spark.sparkContext
    Report.to(report, context.hadoopConfiguration) { report =>
      val manifest = new Manifest(location, context.hadoopConfiguration)
      val (tally, elapsed) = report.timed(generate(context, location, records, objectBytes / Record.Bytes, skewed))
      manifest.write(
        SortManifest.describe(
          tally,
          ListMap("object_size" -> objectBytes, "skewed" -> skewed, "spark" -> spark.version)
        )
      )
      report.measure("generate", elapsed, records * Record.Bytes, records)
    }
    spark.stop()
    0
  }

  private def generate(context: SparkContext, location: String, records: Long, each: Long, skewed: Boolean): Tally = {
    val path = new Path(location)
    val _ = path.getFileSystem(context.hadoopConfiguration).delete(path, true)
    val sum = new TallyAccumulator
    context.register(sum)
    val objects = ((records + each - 1) / each).toInt
    val blocks = context.parallelize(0 until objects, objects).map { index =>
      val first = index * each
      // The sum is made while the block is written, which is in the action, where Spark counts each task once.
      new Generated(new RecordGenerator(skewed), first, math.min(each, records - first), sum.add): RecordBlock
    }
    RecordOutputFormat.save(blocks, location)
    sum.value
  }
}

/** The manifest of generated records, against which a sorted copy of them is checked. */
@JsonIgnoreProperties(ignoreUnknown = true)
final case class SortManifest(records: Long, checksum: String)

object SortManifest {

  /** The content of the manifest; `more` describes further properties of the data. */
  def describe(tally: Tally, more: Map[String, Any]): Map[String, Any] =
    ListMap[String, Any](
      "records" -> tally.records,
      "bytes" -> tally.records * Record.Bytes,
      "checksum" -> tally.checksum.toString
    ) ++ more
}

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

  /** The bytes that all records share: marks between the parts, and a record number of zero. */
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

/**
 * The sort benchmark's random numbers (Chris Nyberg's `rand16`, Hadoop's `Random16`): x' = a x + c modulo 2^128, from
 * zero. Record number n is made of the (n + 1)-th of them.
 */
final class RandomNumbers(firstRecord: Long) {
  import RandomNumbers._

  private val start = at(firstRecord)
  private var high = start.high
  private var low = start.low

  /** The upper and lower 64 bits of the current record's number. */
  def upper: Long = high
  def lower: Long = low

  /** To the next record. Numbers are kept apart in halves here: this runs once for every 100 bytes generated. */
  def advance(): Unit = {
    val productLow = low * Factor.low
    val productHigh = Unsigned128.upperHalf(low, Factor.low) + high * Factor.low + low * Factor.high
    val sum = productLow + Increment.low
    val carry = if (java.lang.Long.compareUnsigned(sum, productLow) < 0) 1 else 0
    high = productHigh + Increment.high + carry
    low = sum
  }
}

object RandomNumbers {
  private val Factor = Unsigned128(0x2360ed051fc65da4L, 0x4385df649fccf645L)
  private val Increment = Unsigned128(0x4a696d4772617952L, 0x4950202020202001L)

  /** One step of the generator, or several at once: steps are affine functions, and so are their compositions. */
  private final case class Step(factor: Unsigned128, increment: Unsigned128) {
    def twice: Step = andThen(this)
    def andThen(next: Step): Step = Step(factor * next.factor, increment * next.factor + next.increment)
  }

  /** The random number of a record, in as many steps as its number has bits. */
  def at(record: Long): Unsigned128 = {
    require(record >= 0, s"record $record")
    @annotation.tailrec
    def jump(steps: Long, doubled: Step, taken: Step): Step =
      if (steps == 0) taken
      else jump(steps >>> 1, doubled.twice, if ((steps & 1) == 1) taken.andThen(doubled) else taken)
    jump(record + 1, Step(Factor, Increment), Step(Unsigned128.One, Unsigned128.Zero)).increment
  }
}

/** A number modulo 2^128, as the sort benchmark's generator and check sum count. */
final case class Unsigned128(high: Long, low: Long) {

  def +(other: Unsigned128): Unsigned128 = {
    val sum = low + other.low
    val carry = if (java.lang.Long.compareUnsigned(sum, low) < 0) 1 else 0
    Unsigned128(high + other.high + carry, sum)
  }

  def *(other: Unsigned128): Unsigned128 =
    Unsigned128(
      Unsigned128.upperHalf(low, other.low) + high * other.low + low * other.high,
      low * other.low
    )

  /** Hexadecimal without leading zeros, as gensort, valsort and TeraChecksum print it. */
  override def toString: String = new BigInteger("%016x%016x".format(high, low), 16).toString(16)
}

object Unsigned128 {
  val Zero: Unsigned128 = Unsigned128(0, 0)
  val One: Unsigned128 = Unsigned128(0, 1)

  /** The upper 64 bits of the product of two unsigned numbers. */
  def upperHalf(one: Long, other: Long): Long =
    Math.multiplyHigh(one, other) + ((one >> 63) & other) + ((other >> 63) & one)
}
