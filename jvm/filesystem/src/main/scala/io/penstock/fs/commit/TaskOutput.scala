package io.penstock.fs.commit

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.S3AFileSystem
import org.apache.hadoop.fs.s3a.commit.files.SinglePendingCommit
import org.apache.hadoop.fs.s3a.commit.magic.InMemoryMagicCommitTracker
import org.apache.hadoop.fs.s3a.commit.{CommitConstants, MagicCommitPaths}
import org.apache.hadoop.fs.{FSDataOutputStream, Path}
import org.apache.hadoop.mapreduce.TaskAttemptContext
import org.apache.spark.internal.io.FileNameSpec

/**
 * The files of one attempt of one task. It writes to S3A's magic paths, which S3A turns into uploads to the final place
 * that it leaves uncompleted; S3A keeps what completes them in this process's memory, from where it is taken here.
 *
 * @param attempt
 *   no other attempt of any job has this name
 */
abstract private[commit] class TaskOutput(
    job: String,
    protected val attempt: String,
    protected val conf: Configuration
) {

  import TaskOutput._

  /** Where each file that was begun is to appear, by the path to which it is written. */
  protected val begun = new ConcurrentHashMap[Path, Location]

  private val created = ConcurrentHashMap.newKeySet[Path]()

  private val behind = WriteBehind.attempt(job, attempt, () => taken(attempt, remove = true))

  running.put(attempt, this): Unit

  /** The attempt is about to create a file. Throws an `IOException` where it must not. */
  protected def begin(path: Path, file: Location): Unit

  private def create(path: Path)(create: => FSDataOutputStream): FSDataOutputStream = {
    val file = destination(path)
    begin(path, file)
    begun.put(path, file)
    val isFirst = created.add(path)
    // Of a file that is written again, the one that is closed last counts.
    if (!isFirst) behind.foreach(_.settle())
    val stream = create
    behind.filter(_ => isFirst).fold(stream)(new ClosedBehind(stream, path, file, _))
  }

  /** Of the files that are written to their end. */
  def uploads: Vector[Upload] = taken(attempt, remove = false)

  def isEmpty: Boolean = uploads.isEmpty && behind.forall(_.openFiles.isEmpty)

  /** Nothing more is written. Throws an `IOException` where a file could not be uploaded: the task can be run again. */
  def commit(): TaskOutput.Committed = {
    running.remove(attempt)
    val (uploaded, owed) = behind.fold((taken(attempt, remove = true), Vector.empty[Ticket]))(_.commit())
    Committed(uploaded.groupBy(_.location).valuesIterator.map(_.last).toVector.sortBy(_.key), owed)
  }

  /** Leaves nothing of the attempt, also where Spark interrupts it: an interrupted thread could send no request. */
  def abort(): Unit = {
    val interrupted = Thread.interrupted()
    try {
      running.remove(attempt)
      behind.foreach(_.settle())
      abort(taken(attempt, remove = true))
    } finally if (interrupted) Thread.currentThread.interrupt()
  }

  /** Aborts these uploads, and those that S3A has begun for other files. */
  protected def abort(known: Vector[Upload]): Unit
}

private[fs] object TaskOutput {

  /** What a task reports: which files it has uploaded, and which its executor still owes. */
  final private[commit] case class Committed(uploads: Vector[Upload], owed: Vector[Ticket]) {
    def files: Vector[Location] = uploads.map(_.location) ++ owed.map(_.file)
  }

  private val running = new ConcurrentHashMap[String, TaskOutput]

  /** Creates a file, as its task wants it where the path is that of a running task's. */
  private[fs] def create(path: Path)(create: => FSDataOutputStream): FSDataOutputStream =
    attemptOf(path).flatMap(name => Option(running.get(name))).fold(create)(_.create(path)(create))

  /** The fourth name below the magic one is what S3A takes for the attempt's, and so is found again here. */
  private val AttemptName = 3

  private[commit] def treeOf(job: String): String = CommitConstants.MAGIC_PATH_PREFIX + job

  /** Below this directory are the attempt's files whose final place is below `directory`. */
  private[commit] def base(directory: Path, job: String, attempt: String, conf: Configuration): Path =
    qualified(new Path(directory, s"${treeOf(job)}/job/0/tasks/$attempt/${CommitConstants.BASE}"), conf)

  private[commit] def qualified(path: Path, conf: Configuration): Path = path.getFileSystem(conf).makeQualified(path)

  private def attemptOf(path: Path): Option[String] =
    if (!path.toUri.getPath.contains(CommitConstants.MAGIC_PATH_PREFIX)) None
    else {
      val names = MagicCommitPaths.splitPathToElements(path)
      Option.when(MagicCommitPaths.isMagicPath(names))(MagicCommitPaths.magicPathChildren(names)).collect {
        case below if below.size > AttemptName => below.get(AttemptName)
      }
    }

  private def destination(path: Path): Location = {
    val names = MagicCommitPaths.finalDestination(MagicCommitPaths.splitPathToElements(path))
    Location(path.toUri.getHost, MagicCommitPaths.elementsToKey(names))
  }

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
}

/** Files that have their job and their attempt in their names, as Spark SQL's have. */
final private[commit] class NamedTaskOutput(
    job: String,
    context: TaskAttemptContext,
    open: S3AFileSystem => ObjectStore
) extends TaskOutput(job, s"$job-${context.getTaskAttemptID}", context.getConfiguration) {

  import NamedTaskOutput._

  /** Where to write the file that is to appear in `directory`. */
  def file(directory: Path, spec: FileNameSpec): Path = {
    val id = context.getTaskAttemptID
    // Another attempt has another name: what this one aborts, by its key, cannot be what that one has uploaded.
    val part = "%s-%05d".format(context.getConfiguration.get(BaseName, "part"), id.getTaskID.getId)
    val name = s"${spec.prefix}$part-$job-${id.getId}${spec.suffix}"
    val written = new Path(TaskOutput.base(directory, job, attempt, conf), name)
    begun.put(written, Location.of(TaskOutput.qualified(new Path(directory, name), conf)))
    written
  }

  override protected def begin(path: Path, file: Location): Unit = ()

  override protected def abort(known: Vector[Upload]): Unit = {
    val ids = known.groupBy(_.location)
    for {
      (fs: S3AFileSystem, files) <- begun.asScala.groupMap(_._1.getFileSystem(context.getConfiguration))(_._2)
      bucket = open(fs)
      file <- files
    } ids.get(file) match {
      case Some(uploads) => uploads.foreach(upload => bucket.abort(upload.key, upload.id))
      case None => abortUnknown(bucket, file.key)
    }
  }
}

private object NamedTaskOutput {

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
}
