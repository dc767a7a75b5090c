package io.penstock.workloads.terasort

import java.io.InputStream
import java.util.concurrent.{Callable, Executors}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, LocatedFileStatus, Options, Path}
import org.apache.spark.rdd.{RDD, ShuffledRDD}
import org.apache.spark.sql.SparkSession
import org.apache.spark.util.SerializableConfiguration
import org.apache.spark.{Partitioner, SparkContext, TaskContext}

import io.penstock.application.{Application, Arguments, UsageError}
import io.penstock.workloads.{DataFiles, Report}

/**
 * TeraSort: all records of the files below `--input` in ascending order of their keys, in the files of `--output`.
 *
 * Each record is read once, sent once and written once. A task reads its split, assigns each record to a range of keys
 * and sends each range's records as one block; the task of a range sorts what arrives and writes one file. Nothing is
 * sorted before it is sent: the radix sort of the whole range gains nothing from parts in order.
 */
object Sort extends Application {

  private val usage =
    "Sort --input URI --output URI --report URI [--object-size 128m | --partitions N]"
  private val known = Set("input", "output", "report", "object-size", "partitions")

  override def run(arguments: Seq[String]): Int = {
    val options = Arguments.parse(arguments, known, usage)
    val input = options.required("input")
    val output = new Path(options.required("output"))
    val report = options.required("report")
    val objectBytes = options.size("object-size", "128m")
    val partitions = options.read("partitions", "a whole number of at least 1")(_.toIntOption.filter(_ >= 1))

    val spark = SparkSession.builder().appName(s"TeraSort of $input").getOrCreate()
    val context = spark.sparkContext
    if (output.getFileSystem(context.hadoopConfiguration).exists(output))
      throw new UsageError(s"There is something at $output already.")
    Report.to(report, context.hadoopConfiguration) { report =>
      val (sorted, elapsed) = report.timed {
        val files = Splits.files(input, context.hadoopConfiguration)
        val bytes = wholeRecords(files)
        val ranges = partitions.getOrElse(math.max(1, ((bytes + objectBytes - 1) / objectBytes).toInt))
        sort(context, Splits.of(files), ranges, output.toString)
        (bytes, files.size, ranges)
      }
      val (bytes, files, ranges) = sorted
      report.measure("sort", elapsed, bytes, bytes / Record.Bytes, "objects" -> files, "partitions" -> ranges)
      // Once for the sample and once to sort them.
      report.opened(2L * files)
    }
    spark.stop()
    0
  }

  /** The records of the files. */
  private def wholeRecords(files: Seq[FileStatus]): Long = {
    for (file <- files if file.getLen % Record.Bytes != 0)
      throw new UsageError(s"${file.getPath} has ${file.getLen} bytes: not whole records of ${Record.Bytes} bytes.")
    files.map(_.getLen).sum
  }

  /** Writes `ranges` files. */
  def sort(context: SparkContext, splits: Seq[Split], ranges: Int, output: String): Unit = {
    val hadoop = context.broadcast(new SerializableConfiguration(context.hadoopConfiguration))
    val sample = Sampling.read(Sampling.plan(splits, Sampling.size(ranges)), context.hadoopConfiguration)
    val bounds = context.broadcast(KeyRanges.even(sample, ranges))
    val sent = Splits.distribute(context, splits).flatMap { split =>
      val buffer = ofThisTask(split.read(hadoop.value.value))
      RangeBlocks.of(buffer, bounds.value)
    }
    val received = new ShuffledRDD[Int, RecordBlock, RecordBlock](sent, new ByNumber(ranges))
      .setSerializer(new BlockSerializer)
    RecordOutputFormat.save(received.mapPartitions(sorted), output)
  }

  private def sorted(blocks: Iterator[(Int, RecordBlock)]): Iterator[RecordBlock] = {
    val buffer = ofThisTask(new RecordBuffer)
    for ((_, block) <- blocks) block.writeTo(buffer.sink)
    Iterator.single(new Gathered(buffer, RecordSort.order(buffer), 0, buffer.count))
  }

  /** The task's output refers to its buffer, which is therefore in use until the task ends. */
  private def ofThisTask(buffer: RecordBuffer): RecordBuffer = {
    TaskContext.get().addTaskCompletionListener[Unit](_ => buffer.close())
    buffer
  }
}

/** Which records are looked at to find out how keys are distributed. */
object Sampling {

  /** With so many, the largest of a hundred partitions is about a tenth larger than the mean. */
  private val PerRange = 1000
  private val AtLeast = 50000

  /** Each is one request to the store. Keys may follow from their records' places in the data, so it takes several. */
  private val Places = 64
  private val AtOnce = 16

  /** The number of sampled records for that many ranges. */
  def size(ranges: Int): Long = math.max(AtLeast.toLong, ranges.toLong * PerRange)

  /** `records` records at places evenly spread over all of the data; all of it where it is not more than that. */
  def plan(data: Seq[Split], records: Long): Seq[Split] = {
    val total = data.map(_.records).sum
    if (total <= records) data
    else {
      val each = math.max(1, records / Places)
      val starts = data.scanLeft(0L)(_ + _.records)
      for {
        place <- 0L until Places.toLong
        // The middle of each of as many equal parts.
        at = (BigInt(total) * (2 * place + 1) / (2 * Places)).toLong
        index = starts.lastIndexWhere(_ <= at)
        split = data(index)
        // What begins close to its split's end is moved back.
        within = math.max(0, math.min(at - starts(index), split.records - each))
      } yield split.copy(first = split.first + within, records = math.min(each, split.records - within))
    }
  }

  /** The records of the plan. */
  def read(plan: Seq[Split], configuration: Configuration): RecordBuffer = {
    val pool = Executors.newFixedThreadPool(AtOnce)
    try {
      val parts = plan.map { split =>
        (() => Using.resource(split.open(configuration))(in => in.readNBytes(split.bytes.toInt))): Callable[Array[Byte]]
      }
      val sample = new RecordBuffer
      pool.invokeAll(parts.asJava).asScala.foreach(part => sample.sink.write(part.get()))
      sample
    } finally pool.shutdownNow()
  }
}

/**
 * The ranges of keys that become partitions: the first holds the keys below the first bound, each other one the keys
 * from its bound up, to before the next one's.
 *
 * `bounds` are ascending; two equal ones have an empty range between them.
 */
final class KeyRanges(bounds: IndexedSeq[Key]) extends Serializable {
  import KeyRanges._

  private val prefixes = bounds.map(_.prefix).toArray
  private val tails = bounds.map(_.tail).toArray

  /** The number of bounds with smaller first two bytes; a search needs only the bounds between two entries. */
  private val firstBytes: Array[Int] = {
    val below = new Array[Int](Lookup + 1)
    for (prefix <- prefixes) below(leading(prefix) + 1) += 1
    below.scanLeft(0)(_ + _).tail
  }

  def count: Int = prefixes.length + 1

  /** The range of a key: how many bounds are not above it. */
  def of(prefix: Long, tail: Int): Int = {
    val first = leading(prefix)
    var low = firstBytes(first)
    var high = firstBytes(first + 1)
    while (low < high) {
      val middle = (low + high) >>> 1
      if (isAbove(middle, prefix, tail)) high = middle else low = middle + 1
    }
    low
  }

  private def isAbove(bound: Int, prefix: Long, tail: Int): Boolean = {
    val first = java.lang.Long.compareUnsigned(prefixes(bound), prefix)
    first > 0 || (first == 0 && tails(bound) > tail)
  }
}

object KeyRanges {
  private val Lookup = 1 << 16

  private def leading(prefix: Long): Int = (prefix >>> 48).toInt

  /** Ranges that each hold as many of the sampled records, as nearly as their keys allow. */
  def even(sample: RecordBuffer, ranges: Int): KeyRanges = {
    require(ranges >= 1, s"$ranges ranges")
    val order = RecordSort.order(sample)
    val bounds = for (range <- 1 until ranges if order.nonEmpty) yield {
      val record = order((range.toLong * order.length / ranges).toInt)
      Key(sample.prefix(record), sample.tail(record))
    }
    new KeyRanges(bounds)
  }
}

/** A task's output: for each range of keys with records, the range's number and those records. */
object RangeBlocks {

  def of(buffer: RecordBuffer, ranges: KeyRanges): Iterator[(Int, RecordBlock)] = {
    val count = buffer.count
    val rangeOf = new Array[Int](count)
    val ends = new Array[Int](ranges.count)
    var record = 0
    while (record < count) {
      val range = ranges.of(buffer.prefix(record), buffer.tail(record))
      rangeOf(record) = range
      ends(range) += 1
      record += 1
    }
    val starts = ends.scanLeft(0)(_ + _)
    System.arraycopy(starts, 0, ends, 0, ends.length)
    val order = new Array[Int](count)
    record = 0
    while (record < count) {
      val range = rangeOf(record)
      order(ends(range)) = record
      ends(range) += 1
      record += 1
    }
    for (range <- ends.indices.iterator if ends(range) > starts(range))
      yield (range, new Gathered(buffer, order, starts(range), ends(range)))
  }
}

/** Keys are the numbers of partitions already. */
final class ByNumber(override val numPartitions: Int) extends Partitioner {
  override def getPartition(key: Any): Int = key.asInstanceOf[Int]
}

/**
 * Whole records of one file: `records` of them from number `first` on, on `hosts` if they are in any one's reach.
 *
 * @param modifiedMs
 *   when the file was modified, as its listing said; 0 where that is not known
 */
final case class Split(
    file: String,
    first: Long,
    records: Long,
    fileBytes: Long,
    modifiedMs: Long = 0,
    hosts: Seq[String] = Nil
) {

  def bytes: Long = records * Record.Bytes

  /** The stream stands at the first record, and goes on beyond the last. */
  def open(configuration: Configuration): InputStream = {
    val path = new Path(file)
    val start = first * Record.Bytes
    val whole = start == 0 && bytes + Record.Bytes > fileBytes
    val open = path.getFileSystem(configuration).openFile(path)
    // To read on to the end of a file of which only a part is wanted would leave the rest of it in the network.
    open.opt(Options.OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY, if (whole) "sequential" else "random")
    // The listed status, as Spark's own scans pass it on: a cache identifies the version by it.
    if (modifiedMs > 0) open.withFileStatus(new FileStatus(fileBytes, false, 1, fileBytes, modifiedMs, path))
    else open.optLong(Options.OpenFileOptions.FS_OPTION_OPENFILE_LENGTH, fileBytes)
    open.optLong(Options.OpenFileOptions.FS_OPTION_OPENFILE_SPLIT_START, start)
    open.optLong(Options.OpenFileOptions.FS_OPTION_OPENFILE_SPLIT_END, start + bytes)
    if (!whole) open.optLong("fs.s3a.readahead.range", bytes)
    val in = open.build().get()
    in.seek(start)
    in
  }

  def read(configuration: Configuration): RecordBuffer = {
    val buffer = new RecordBuffer
    Using.resource(open(configuration))(buffer.append(_, bytes))
    buffer
  }
}

object Splits {

  /** The largest a task has in memory: two cores of an executor with 2 GiB still have room for what they do with it. */
  val LargestBytes: Long = 128L << 20

  /** The data files below a location in the order of their numbers, with each one's place. */
  def files(location: String, configuration: Configuration): Seq[FileStatus] = {
    val found = DataFiles.under(location, configuration)
    if (found.isEmpty) throw new UsageError(s"There is no data at $location.")
    // part-r-100000 comes after part-r-99999.
    found.sortBy(file => (file.getPath.getName.length, file.getPath.toString))
  }

  /** All whole records of the files, in their order, in pieces of `largest` bytes at the most. */
  def of(files: Seq[FileStatus], largest: Long = LargestBytes): Seq[Split] = {
    val each = math.max(1, largest / Record.Bytes)
    for {
      file <- files
      records = file.getLen / Record.Bytes
      first <- 0L until records by each
    } yield Split(
      file.getPath.toString,
      first,
      math.min(each, records - first),
      file.getLen,
      file.getModificationTime,
      hosts(file, first * Record.Bytes)
    )
  }

  /** One task a split, near its bytes. */
  def distribute(context: SparkContext, splits: Seq[Split]): RDD[Split] =
    context.makeRDD(splits.map(split => split -> split.hosts))

  /** An object store answers `localhost`, which is where none of the executors says it is. */
  private def hosts(file: FileStatus, start: Long): Seq[String] = file match {
    case located: LocatedFileStatus =>
      val blocks = located.getBlockLocations.toSeq
      val block = blocks.find(block => block.getOffset <= start && start < block.getOffset + block.getLength)
      block.toSeq.flatMap(_.getHosts).filter(_ != "localhost")
    case _ => Nil
  }
}
