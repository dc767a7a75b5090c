package io.penstock.fs.commit

import java.io.IOException
import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.S3AFileSystem
import org.apache.hadoop.fs.s3a.commit.CommitConstants
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.hadoop.mapreduce.{JobContext, OutputCommitter, TaskAttemptContext}
import org.apache.spark.internal.io.FileCommitProtocol.TaskCommitMessage
import org.apache.spark.internal.io.{FileCommitProtocol, FileNameSpec}
import org.apache.spark.mapred.SparkHadoopMapRedUtil
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol
import org.apache.spark.sql.penstock.ReplaceTableAsSelect
import org.slf4j.LoggerFactory

/**
 * Keeps a table until the query that replaces it has been committed:
 * `spark.sql.extensions=io.penstock.fs.commit.CommitExtension`.
 *
 * Spark drops the table that `saveAsTable` overwrites before it runs the query, and has lost it where the query fails.
 */
final class CommitExtension extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit =
    extensions.injectPostHocResolutionRule(_ => ReplaceTableAsSelect)
}

/**
 * How Spark SQL's writes reach an S3A file system whole or not at all, without renames:
 * `spark.sql.sources.commitProtocolClass=io.penstock.fs.commit.AtomicCommitProtocol`.
 *
 * Tasks upload to the final names and complete nothing. What each has uploaded travels to the driver with the task's
 * result, so only results that Spark accepted count: lost executors, failed and speculative attempts are out by
 * construction. The driver decides the job with one object ([[TableCommit]]).
 *
 * An overwrite's old files are deleted when the job is committed, not before it runs: a job that fails has deleted
 * nothing. Dynamic partition overwrite replaces the partitions that the job wrote files to.
 *
 * Paths of other file systems are written as Spark writes them by default.
 */
class AtomicCommitProtocol(jobId: String, path: String, dynamicPartitionOverwrite: Boolean)
    extends FileCommitProtocol
    with Serializable {

  private val root = new Path(path)

  /** Nothing but what Spark's own class keeps itself: it is used as a whole, or not at all. */
  private val renaming = new SQLHadoopMapReduceCommitProtocol(jobId, path, dynamicPartitionOverwrite)

  @transient private var job: JobOutput = _
  @transient private var task: NamedTaskOutput = _

  private def s3a(conf: Configuration): Option[S3AFileSystem] = root.getFileSystem(conf) match {
    case fs: S3AFileSystem => Some(fs)
    case _ => None
  }

  /** How to reach a bucket. */
  protected def open(fs: S3AFileSystem): ObjectStore = new S3AObjectStore(fs)

  private def jobOutput(conf: Configuration): JobOutput = {
    if (job == null) job = new JobOutput(jobId, root, dynamicPartitionOverwrite, conf, fs => open(fs))
    job
  }

  override def deleteWithJob(fs: FileSystem, path: Path, recursive: Boolean): Boolean = (s3a(fs.getConf), fs) match {
    case (Some(_), target: S3AFileSystem) =>
      jobOutput(fs.getConf).replace(target, path)
      true
    case (Some(_), _) => super.deleteWithJob(fs, path, recursive)
    case (None, _) => renaming.deleteWithJob(fs, path, recursive)
  }

  override def setupJob(context: JobContext): Unit = s3a(context.getConfiguration) match {
    case Some(fs) =>
      Requirements.check(fs)
      jobOutput(context.getConfiguration).begin(context.getConfiguration)
    case None => renaming.setupJob(context)
  }

  override def onTaskCommit(message: TaskCommitMessage): Unit = message.obj match {
    case committed: TaskOutput.Committed if job != null => job.accept(committed)
    case _ => renaming.onTaskCommit(message)
  }

  override def commitJob(context: JobContext, messages: Seq[TaskCommitMessage]): Unit =
    if (job == null) renaming.commitJob(context, messages)
    else job.commit(job.uploads(messages.map(_.obj).collect { case committed: TaskOutput.Committed => committed }))

  override def abortJob(context: JobContext): Unit =
    if (job == null) renaming.abortJob(context) else job.abort()

  override def setupTask(context: TaskAttemptContext): Unit =
    if (s3a(context.getConfiguration).isDefined) task = new NamedTaskOutput(jobId, context, fs => open(fs))
    else renaming.setupTask(context)

  override def newTaskTempFile(context: TaskAttemptContext, directory: Option[String], spec: FileNameSpec): String =
    if (task == null) renaming.newTaskTempFile(context, directory, spec)
    else task.file(directory.fold(root)(new Path(root, _)), spec).toString

  override def newTaskTempFileAbsPath(context: TaskAttemptContext, directory: String, spec: FileNameSpec): String =
    if (task == null) renaming.newTaskTempFileAbsPath(context, directory, spec)
    else {
      val target = new Path(directory)
      Requirements.checkSameKind(root, target, target.getFileSystem(context.getConfiguration))
      task.file(target, spec).toString
    }

  override def commitTask(context: TaskAttemptContext): TaskCommitMessage =
    if (task == null) renaming.commitTask(context)
    else {
      if (!task.isEmpty) {
        val id = context.getTaskAttemptID
        SparkHadoopMapRedUtil.commitTask(Permission, context, id.getJobID.getId, id.getTaskID.getId)
      }
      new TaskCommitMessage(task.commit())
    }

  override def abortTask(context: TaskAttemptContext): Unit =
    if (task == null) renaming.abortTask(context) else task.abort()
}

/**
 * Asks the driver, before the task ends, whether this attempt is the one. Without it two speculative attempts could
 * both end well, and the uploads of the one that nobody listens to would stay. Spark's `CommitDeniedException` says no.
 */
private object Permission extends OutputCommitter {
  override def setupJob(context: JobContext): Unit = ()
  override def setupTask(context: TaskAttemptContext): Unit = ()
  override def needsTaskCommit(context: TaskAttemptContext): Boolean = true
  override def commitTask(context: TaskAttemptContext): Unit = ()

  /** Spark aborts a denied attempt through the protocol too. */
  override def abortTask(context: TaskAttemptContext): Unit = ()
}

/** One job's output on the driver. */
final private[commit] class JobOutput(
    job: String,
    root: Path,
    dynamicPartitionOverwrite: Boolean,
    conf: Configuration,
    open: S3AFileSystem => ObjectStore
) {

  import JobOutput._

  private val buckets =
    new ObjectStores(name => open(new Path(s"s3a://$name/").getFileSystem(conf).asInstanceOf[S3AFileSystem]))
  private val table = Location.directory(root.getFileSystem(conf).asInstanceOf[S3AFileSystem], root)
  private val parallel = Parallel.of(conf)

  private val replacedBelow = mutable.Set.empty[Location]
  private val accepted = mutable.Buffer.empty[Location]

  /** Files whose names do not say that they are this job's. */
  private var reported = Set.empty[Location]

  /** Once true, taking the job back could take back what is decided. */
  private var mayBeDecided = false

  /** The write's own settings: what it replaces may be set before it begins, with those of the file system. */
  private var settings = conf

  /**
   * The job begins. Throws an `IOException` where the store cannot order commits, which is asked once for each bucket
   * of this process.
   */
  def begin(settings: Configuration): Unit = {
    this.settings = settings
    RunningJobs.begin(job, table)
    val store = (table.bucket, conf.get("fs.s3a.endpoint", ""))
    if (!proven.contains(store)) {
      new CommitLog(buckets(table.bucket), table).requireConditions()
      proven.add(store): Unit
    }
  }

  /** Spark asks for this to be deleted before the job; it will be once the job is decided. */
  def replace(fs: S3AFileSystem, path: Path): Unit = synchronized(replacedBelow += Location.directory(fs, path))

  /** A task's result has come. */
  def accept(committed: TaskOutput.Committed): Unit =
    synchronized(accepted ++= committed.files)

  /**
   * The uploads of these tasks, once executors have uploaded what they owe. Throws an `IOException` where one cannot;
   * the job is to be aborted then.
   */
  def uploads(tasks: Seq[TaskOutput.Committed]): Vector[Upload] = {
    val owed = tasks.flatMap(_.owed)
    val late = if (owed.isEmpty) Vector.empty else RunningJobs.uploads(job, owed)
    tasks.iterator.flatMap(_.uploads).toVector ++ late
  }

  def commit(uploads: Vector[Upload]): Unit = {
    end()
    val scopes = replacedBelow.toVector ++ (if (dynamicPartitionOverwrite) Replacing.partitions(uploads) else Nil)
    val marked = settings.getBoolean(
      CommitConstants.CREATE_SUCCESSFUL_JOB_OUTPUT_DIR_MARKER,
      CommitConstants.DEFAULT_CREATE_SUCCESSFUL_JOB_DIR_MARKER
    )
    val marker = Option.when(marked)(table.copy(key = table.key + CommitConstants._SUCCESS))
    val expected = Option(settings.get(TableVersion.Expected)).map(_.toLong)
    mayBeDecided = true
    try
      new TableCommit(buckets, table, parallel, JobOutput.patience(settings)).commit(
        job,
        uploads,
        scopes,
        marker,
        expected
      )
    catch {
      case e: CommitInterrupted => throw e
      // Only these say that the job is not decided, or was taken back for good: once its record is requested, a stopped
      // query and a defect are a CommitInterrupted.
      case e @ (_: IOException | _: InterruptedException | _: RuntimeException) =>
        mayBeDecided = false
        throw e
    }
    try removeReported(reported -- uploads.iterator.map(_.location))
    catch { case e: IOException => log.warn(s"Job $job has landed in $table, and left unfinished uploads there", e) }
  }

  /** What attempts have left of these files, and directories that an output format has made for its files. */
  private def removeReported(files: Set[Location]): Unit = if (reported.nonEmpty) {
    if (files.nonEmpty) Leftovers.abort(buckets, parallel, job, CommitRecord.places(table, files), files)
    val bucket = buckets(table.bucket)
    val made = bucket.list(s"${table.key}${TaskOutput.treeOf(job)}/").map(_.key).toVector
    if (made.nonEmpty) bucket.delete(made)
  }

  private def end(): Unit = RunningJobs.end(job).foreach { reports =>
    reported ++= reports.begun ++ reports.tasks.valuesIterator.flatMap(_.files)
  }

  /** Leaves nothing of the job; a decided job is left to be carried out by the next one. May be called twice. */
  def abort(): Unit = {
    end()
    if (mayBeDecided) log.warn(s"Job $job is not taken back: it is decided, or may be")
    else {
      val known = synchronized(accepted.toVector)
      Leftovers.abort(buckets, parallel, job, CommitRecord.places(table, known), Set.empty)
      removeReported(reported)
    }
  }
}

private[commit] object JobOutput {

  private val log = LoggerFactory.getLogger(classOf[JobOutput])

  /** How long another job's commit to the same table is left to its driver before this job finishes it. */
  val Patience = "fs.s3a.penstock.commit.patience"
  private val DefaultPatience = 10000L

  def patience(conf: Configuration): Long = conf.getTimeDuration(Patience, DefaultPatience, TimeUnit.MILLISECONDS)

  /** Stores that are known to have conditional writes, by their URI and their endpoint's. */
  private val proven = ConcurrentHashMap.newKeySet[(String, String)]()
}

/** Requirements of a commit as a whole, checked before the job does any work. */
private[commit] object Requirements {

  private val settings = Seq(
    (
      CommitConstants.MAGIC_COMMITTER_ENABLED,
      CommitConstants.DEFAULT_MAGIC_COMMITTER_ENABLED,
      "without it S3A would store files under their temporary names"
    ),
    (
      CommitConstants.FS_S3A_COMMITTER_MAGIC_TRACK_COMMITS_IN_MEMORY_ENABLED,
      CommitConstants.FS_S3A_COMMITTER_MAGIC_TRACK_COMMITS_IN_MEMORY_ENABLED_DEFAULT,
      "Penstock's commit takes what tasks have uploaded from there"
    )
  )

  private def unmet(fs: S3AFileSystem): Seq[(String, String)] =
    for ((setting, default, why) <- settings if !fs.getConf.getBoolean(setting, default)) yield (setting, why)

  def areMet(fs: S3AFileSystem): Boolean = unmet(fs).isEmpty

  def check(fs: S3AFileSystem): Unit = for ((setting, why) <- unmet(fs))
    throw new IOException(
      s"Nothing can be written to s3a://${fs.getBucket}/: $setting is false, and $why. " +
        s"Set spark.hadoop.$setting=true, or another spark.sql.sources.commitProtocolClass"
    )

  /** A partition elsewhere must be of a file system that can hold its files back until the job is decided. */
  def checkSameKind(table: Path, partition: Path, fs: FileSystem): Unit = fs match {
    case s3a: S3AFileSystem => check(s3a)
    case _ =>
      throw new IOException(
        s"The partition at $partition cannot be written together with the table $table: files there cannot appear in " +
          "the same instant. Write it on its own, or give it a location on S3A"
      )
  }
}
