package io.penstock.workloads.terasort

import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.rdd.ShuffledRDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.util.SerializableConfiguration
import org.apache.spark.{SparkContext, TaskContext}

import io.penstock.workloads.{Application, Arguments, Report, UsageError}

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
    }
    spark.stop()
    0
  }

  /** What the files hold. */
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

  /** What a task hands on are references to its buffer, so it is in use until the task is over. */
  private def ofThisTask(buffer: RecordBuffer): RecordBuffer = {
    TaskContext.get().addTaskCompletionListener[Unit](_ => buffer.close())
    buffer
  }
}
