package io.penstock.workloads.terasort

import java.util.zip.CRC32

import scala.util.Using

import org.apache.hadoop.fs.FileStatus
import org.apache.spark.SparkContext
import org.apache.spark.sql.SparkSession
import org.apache.spark.util.{AccumulatorV2, SerializableConfiguration}

import io.penstock.application.{Application, Arguments}
import io.penstock.workloads.{Manifest, Report}

/**
 * TeraValidate: whether what is at `--output` is in order, within its files and from each to the next, and is the very
 * records that the manifest at `--input` is of. Exit code 9 where it is not.
 */
object Validate extends Application {

  private val usage = "Validate --input URI --output URI --report URI"
  private val known = Set("input", "output", "report")

  /** A split is read once from its start to its end and never held. */
  private val splitBytes = 512L << 20

  override def run(arguments: Seq[String]): Int = {
    val options = Arguments.parse(arguments, known, usage)
    val (input, output) = (options.required("input"), options.required("output"))
    val report = options.required("report")

    val spark = SparkSession.builder().appName(s"TeraValidate of $output").getOrCreate()
    val configuration = spark.sparkContext.hadoopConfiguration
    val wrong = Report.to(report, configuration) { report =>
      val expected = new Manifest(input, configuration).read[SortManifest]()
      val files = Splits.files(output, configuration)
      val (stretches, elapsed) = report.timed(read(spark.sparkContext, files))
      report.opened(files.size.toLong)
      val found = stretches.map(_.tally).foldLeft(Tally.Empty)(_ + _)
      for (check <- SortVerdict.of(expected, found, Stretch.disorder(stretches), torn(files)))
        report.check(check.name, check.right, check.note)
      if (report.wrongChecks == 0) report.measure("validate", elapsed, found.records * Record.Bytes, found.records)
      report.wrongChecks
    }
    spark.stop()
    if (wrong == 0) 0 else 9
  }

  /** In the order of the data. */
  private def read(context: SparkContext, files: Seq[FileStatus]): Seq[Stretch] = {
    val hadoop = context.broadcast(new SerializableConfiguration(context.hadoopConfiguration))
    Splits
      .distribute(context, Splits.of(files, splitBytes))
      .map(split => Using.resource(split.open(hadoop.value.value))(Stretch.read(split, _)))
      .collect()
      .toSeq
  }

  /** Files that end within a record. */
  private def torn(files: Seq[FileStatus]): Seq[String] =
    files.filter(_.getLen % Record.Bytes != 0).map(file => s"${file.getPath} has ${file.getLen} bytes")
}

/** One check, with what was expected and what was found. */
final case class SortVerdict(name: String, right: Boolean, note: String)

object SortVerdict {
  def of(expected: SortManifest, found: Tally, disorder: Option[Disorder], torn: Seq[String]): Seq[SortVerdict] = Seq(
    SortVerdict("order", disorder.isEmpty, disorder.fold(s"${found.records} records ascend")(_.toString)),
    SortVerdict(
      "count",
      expected.records == found.records && torn.isEmpty,
      (s"${expected.records} records were generated, ${found.records} are there" +: torn).mkString("; ")
    ),
    SortVerdict(
      "checksum",
      expected.checksum == found.checksum.toString,
      s"${expected.checksum} was generated, ${found.checksum} is there"
    )
  )
}

/** The number of records and the sum of their CRC-32, which do not depend on the order of records. */
final case class Tally(records: Long, checksum: Unsigned128) {
  def +(other: Tally): Tally = Tally(records + other.records, checksum + other.checksum)
}

object Tally {
  val Empty: Tally = Tally(0, Unsigned128.Zero)

  /** The tally of the whole records in the first `length` bytes. */
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
