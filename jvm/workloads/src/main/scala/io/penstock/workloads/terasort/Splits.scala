package io.penstock.workloads.terasort

import java.io.InputStream

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, LocatedFileStatus, Options, Path}
import org.apache.spark.SparkContext
import org.apache.spark.rdd.RDD

import io.penstock.workloads.{DataFiles, UsageError}

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
    // What the listing told, as Spark's own scans pass it on: a cache knows by it whether it has this very version.
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
