package io.penstock.fs.commit

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path
import org.apache.hadoop.fs.s3a.S3AFileSystem
import org.apache.hadoop.fs.s3a.commit.CommitConstants
import org.apache.hadoop.fs.s3a.commit.files.SinglePendingCommit
import org.apache.hadoop.fs.s3a.commit.magic.InMemoryMagicCommitTracker
import org.apache.hadoop.mapreduce.{JobContext, OutputCommitter, TaskAttemptContext}
import org.apache.spark.internal.io.FileNameSpec
import org.apache.spark.mapred.SparkHadoopMapRedUtil

/**
 * The files of one attempt of one task. It writes to S3A's magic paths, which S3A turns into uploads to the final place
 * that it leaves uncompleted; S3A keeps what completes them in this process's memory, from where it is taken here.
 */
final private[commit] class TaskOutput(job: String, context: TaskAttemptContext, open: S3AFileSystem => ObjectStore) {

  import TaskOutput._

  private val attempt = s"$job-${context.getTaskAttemptID}"

  // The fourth name below the magic one is what S3A takes for the attempt's; what follows __base is below the target.
  private val magic = s"${CommitConstants.MAGIC_PATH_PREFIX}$job/job/0/tasks/$attempt/__base"

  /** Where each file that was begun is to appear, and by which path it is written. */
  private val begun = mutable.Buffer.empty[(Path, Path)]

  private val behind = WriteBehind.attempt(job, () => taken(attempt, remove = true))

  /** Where to write the file that is to appear in `directory`. */
  def file(directory: Path, spec: FileNameSpec): Path = {
    val id = context.getTaskAttemptID
    // Another attempt has another name: what this one aborts, by its key, cannot be what that one has uploaded.
    val part = "%s-%05d".format(context.getConfiguration.get(BaseName, "part"), id.getTaskID.getId)
    val name = s"${spec.prefix}$part-$job-${id.getId}${spec.suffix}"
    val (target, written) = (new Path(directory, name), qualified(new Path(directory, s"$magic/$name")))
    begun += target -> written
    behind.foreach(WriteBehind.expect(written, locationOf(target), _))
    written
  }

  private def qualified(path: Path): Path = path.getFileSystem(context.getConfiguration).makeQualified(path)

  private def locationOf(target: Path): Location = {
    val uri = qualified(target).toUri
    Location(uri.getHost, uri.getPath.stripPrefix("/"))
  }

  /** Of the files that are written to their end. */
  def uploads: Vector[Upload] = taken(attempt, remove = false)

  /** Throws Spark's `CommitDeniedException` where another attempt of the task was allowed to commit. */
  def commit(): TaskOutput.Committed = {
    if (uploads.nonEmpty || behind.exists(_.openFiles.nonEmpty)) {
      val id = context.getTaskAttemptID
      SparkHadoopMapRedUtil.commitTask(Permission, context, id.getJobID.getId, id.getTaskID.getId)
    }
    forgetUnwritten()
    val (uploaded, owed) = behind.fold((taken(attempt, remove = true), Vector.empty[Ticket]))(_.commit())
    Committed(uploaded, owed)
  }

  private def forgetUnwritten(): Unit = begun.foreach { case (_, written) => WriteBehind.forget(written) }

  /** Leaves nothing of the attempt, also where Spark interrupts it: an interrupted thread could send no request. */
  def abort(): Unit = {
    val interrupted = Thread.interrupted()
    try {
      forgetUnwritten()
      behind.foreach(_.settle())
      val known = taken(attempt, remove = true).groupBy(_.key)
      for ((fs, paths) <- begun.map(_._1).groupBy(_.getFileSystem(context.getConfiguration))) fs match {
        case s3a: S3AFileSystem =>
          val bucket = open(s3a)
          for (key <- paths.map(fs.makeQualified(_).toUri.getPath.stripPrefix("/")))
            known.get(key) match {
              case Some(uploads) => uploads.foreach(upload => bucket.abort(upload.key, upload.id))
              case None => abortUnknown(bucket, key)
            }
        case _ => ()
      }
    } finally if (interrupted) Thread.currentThread.interrupt()
  }
}

private[commit] object TaskOutput {

  /** Hadoop's setting of what names of files begin with. */
  private val BaseName = "mapreduce.output.basename"

  /** An upload whose beginning was interrupted may still be on its way to the store. */
  private val Looks = 2
  private val PauseMs = 100L

  /** What S3A began for a file that was not written to its end, and does not know of where it was interrupted. */
  private def abortUnknown(bucket: ObjectStore, key: String): Unit =
    Iterator.range(0, Looks).find { look =>
      if (look > 0) Thread.sleep(PauseMs)
      val found = bucket.uploads(key).filter(_.key == key).toVector
      found.foreach(upload => bucket.abort(key, upload.id))
      found.nonEmpty
    }

  /** What a task tells the driver: which files it has uploaded, and which its executor still owes. */
  final case class Committed(uploads: Vector[Upload], owed: Vector[Ticket])

  private def taken(attempt: String, remove: Boolean): Vector[Upload] = {
    val pending = InMemoryMagicCommitTracker.getTaskAttemptIdToMpuMetadata
    val found = Option(if (remove) pending.remove(attempt) else pending.get(attempt))
    if (remove)
      for {
        paths <- Option(InMemoryMagicCommitTracker.getTaskAttemptIdToPath.remove(attempt))
        path <- paths.asScala
      } InMemoryMagicCommitTracker.getPathToBytesWritten.remove(path)
    found.fold(Vector.empty[Upload])(_.asScala.iterator.map(upload).toVector)
  }

  private def upload(pending: SinglePendingCommit): Upload = Upload(
    pending.getBucket,
    pending.getDestinationKey,
    pending.getUploadId,
    pending.getEtags.asScala.iterator
      .map(part => Part(part.getEtag, Option(part.getChecksumAlgorithm), Option(part.getChecksum)))
      .toVector,
    pending.getLength
  )

  /**
   * Asks the driver, before the task ends, whether this attempt is the one. Without it two speculative attempts could
   * both end well, and the uploads of the one that nobody listens to would stay.
   */
  private object Permission extends OutputCommitter {
    override def setupJob(context: JobContext): Unit = ()
    override def setupTask(context: TaskAttemptContext): Unit = ()
    override def needsTaskCommit(context: TaskAttemptContext): Boolean = true
    override def commitTask(context: TaskAttemptContext): Unit = ()

    /** Spark aborts a denied attempt through the protocol too. */
    override def abortTask(context: TaskAttemptContext): Unit = ()
  }
}
