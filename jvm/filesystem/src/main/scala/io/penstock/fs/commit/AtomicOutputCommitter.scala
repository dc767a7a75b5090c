package io.penstock.fs.commit

import java.io.IOException

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.S3AFileSystem
import org.apache.hadoop.fs.s3a.commit.{CommitConstants, S3ACommitterFactory}
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.hadoop.mapred
import org.apache.hadoop.mapreduce.lib.output.{FileOutputFormat, PathOutputCommitter}
import org.apache.hadoop.mapreduce.{JobContext, JobStatus, TaskAttemptContext}
import org.apache.spark.{SparkEnv, TaskContext}

/** A file system that lets [[TaskOutput]] see which files are created. */
trait CreatesTaskFiles

/**
 * How output of Spark's RDDs reaches the lake whole or not at all:
 * `mapreduce.outputcommitter.factory.scheme.s3a=io.penstock.fs.commit.AtomicCommitterFactory`.
 *
 * It is for jobs of a Spark with the [[CommitPlugin]], on a [[CreatesTaskFiles]], whose `fs.s3a.committer.name` is
 * `magic`. All others have S3A's own committers.
 */
final class AtomicCommitterFactory extends S3ACommitterFactory {

  override def createTaskCommitter(fs: S3AFileSystem, output: Path, context: TaskAttemptContext): PathOutputCommitter =
    AtomicOutputCommitter.of(fs, output, context).getOrElse(super.createTaskCommitter(fs, output, context))
}

/**
 * The same for Hadoop's older interface, which `saveAsTextFile` and `saveAsHadoopFile` use:
 * `mapred.output.committer.class=io.penstock.fs.commit.AtomicMapredCommitter`. Jobs that it is not for have Hadoop's
 * own committer, which renames.
 */
final class AtomicMapredCommitter extends mapred.FileOutputCommitter {

  private var chosen: Option[Option[AtomicOutputCommitter]] = None

  /** Hadoop makes a committer of its own for the question where to write, and Spark one for each job and each task. */
  private def atomic(context: JobContext): Option[AtomicOutputCommitter] = chosen.getOrElse {
    val conf = context.getConfiguration
    val found = for {
      output <- Option(conf.get(FileOutputFormat.OUTDIR)).map(new Path(_))
      committer <- AtomicOutputCommitter.of(output.getFileSystem(conf), output, context)
    } yield committer
    chosen = Some(found)
    found
  }

  override def getWorkPath(context: mapred.TaskAttemptContext, output: Path): Path =
    atomic(context).fold(super.getWorkPath(context, output))(_.getWorkPath)

  override def setupJob(context: mapred.JobContext): Unit =
    atomic(context).fold(super.setupJob(context))(_.setupJob(context))

  override def commitJob(context: mapred.JobContext): Unit =
    atomic(context).fold(super.commitJob(context))(_.commitJob(context))

  override def abortJob(context: mapred.JobContext, state: Int): Unit =
    atomic(context).fold(super.abortJob(context, state))(_.abortJob(context, JobStatus.State.FAILED))

  override def setupTask(context: mapred.TaskAttemptContext): Unit =
    atomic(context).fold(super.setupTask(context))(_.setupTask(context))

  override def needsTaskCommit(context: mapred.TaskAttemptContext): Boolean =
    atomic(context).fold(super.needsTaskCommit(context))(_.needsTaskCommit(context))

  override def commitTask(context: mapred.TaskAttemptContext): Unit =
    atomic(context).fold(super.commitTask(context))(_.commitTask(context))

  override def abortTask(context: mapred.TaskAttemptContext): Unit =
    atomic(context).fold(super.abortTask(context))(_.abortTask(context))
}

/**
 * One job's output, or one task's, of an RDD. Tasks upload as those of [[AtomicCommitProtocol]] do, and the driver
 * decides in the same way ([[TableCommit]]).
 *
 * Two things differ. What a task has uploaded does not travel with its result, where Hadoop's interface has no place
 * for it: the task reports it before it ends. And the names of files are the output format's, `part-00000`, and say
 * neither which job's they are nor which attempt's: executors report each before they create it, so that what attempts
 * have left under these names can be aborted when the job is over. Two jobs that write the same files at once thus
 * abort each other's uploads; the one that commits later fails, and the first one's files stay.
 */
final private[commit] class AtomicOutputCommitter(output: Path, job: String, context: JobContext)
    extends PathOutputCommitter(output, context) {

  private val conf = context.getConfiguration

  private lazy val jobOutput =
    new JobOutput(job, output, dynamicPartitionOverwrite = false, conf, new S3AObjectStore(_))

  private var task: Option[ReportedTaskOutput] = None

  override def getOutputPath: Path = output

  override def getWorkPath: Path = context match {
    case attempt: TaskAttemptContext => ReportedTaskOutput.workPath(job, output, attempt)
    case _ => output
  }

  override def setupJob(context: JobContext): Unit = jobOutput.begin(conf)

  override def commitJob(context: JobContext): Unit =
    jobOutput.commit(jobOutput.uploads(RunningJobs.committed(job)))

  override def abortJob(context: JobContext, state: JobStatus.State): Unit = jobOutput.abort()

  override def setupTask(context: TaskAttemptContext): Unit =
    task = Some(new ReportedTaskOutput(job, output, context))

  override def needsTaskCommit(context: TaskAttemptContext): Boolean = task.exists(!_.isEmpty)

  override def commitTask(context: TaskAttemptContext): Unit = task.foreach(_.report())

  override def abortTask(context: TaskAttemptContext): Unit = task.foreach(_.abort())
}

private[commit] object AtomicOutputCommitter {

  /** By which Spark lets committers of one job know each other. */
  private val JobId = "spark.sql.sources.writeJobUUID"

  def of(fs: FileSystem, output: Path, context: JobContext): Option[AtomicOutputCommitter] = fs match {
    case s3a: S3AFileSystem with CreatesTaskFiles if isFor(s3a, context.getConfiguration) =>
      jobOf(s3a, output, context.getConfiguration).map(new AtomicOutputCommitter(output, _, context))
    case _ => None
  }

  private def isFor(fs: S3AFileSystem, conf: Configuration): Boolean = {
    val plugins = Option(SparkEnv.get).fold("")(_.conf.get("spark.plugins", ""))
    val name = CommitConstants.FS_S3A_COMMITTER_NAME
    plugins.split(',').map(_.trim).contains(classOf[CommitPlugin].getName) &&
    conf.getTrimmed(name, fs.getConf.getTrimmed(name)) == CommitConstants.COMMITTER_NAME_MAGIC &&
    Requirements.areMet(fs)
  }

  /** The driver is asked where its setting has not come with the task, as in a copy of the job's configuration. */
  private def jobOf(fs: S3AFileSystem, output: Path, conf: Configuration): Option[String] =
    Option(conf.get(JobId)).orElse {
      for {
        driver <- DriverLink.current if TaskContext.get() != null
        job <- driver.jobOf(Location.directory(fs, output))
      } yield job
    }
}

/** Files that have the names of an output format. */
final private[commit] class ReportedTaskOutput(job: String, output: Path, context: TaskAttemptContext)
    extends TaskOutput(job, ReportedTaskOutput.attempt(job, context), context.getConfiguration) {

  private def isHeard(report: TaskReport): Boolean =
    try DriverLink.current.exists(_.report(report))
    catch { case NonFatal(e) => throw new IOException(s"The driver cannot be asked about job $job: $e", e) }

  private def tooLate = new IOException(s"Job $job is over: this task's output comes too late, and is not kept")

  override protected def begin(path: Path, file: Location): Unit =
    if (!isHeard(TaskReport.Began(job, file))) throw tooLate

  /**
   * Reports what the attempt has written. Throws an `IOException` where it is not to be kept, or a file is lost; or
   * where the driver did not answer: what it may have heard of is its own from now on.
   */
  def report(): Unit = if (!isEmpty) {
    val output = commit()
    if (!isHeard(TaskReport.Committed(job, context.getTaskAttemptID.getTaskID.getId, output))) {
      abort(output.uploads)
      throw tooLate
    }
  }

  /** By their ids: another attempt has the same names. What else was begun is aborted when the job is over. */
  override protected def abort(known: Vector[Upload]): Unit = output.getFileSystem(context.getConfiguration) match {
    case fs: S3AFileSystem =>
      val bucket = new S3AObjectStore(fs)
      known.foreach(upload => bucket.abort(upload.key, upload.id))
    case _ => ()
  }
}

private object ReportedTaskOutput {

  /** Hadoop's name of an attempt comes again when Spark repeats a stage, and the former may still be running. */
  private def attempt(job: String, context: TaskAttemptContext): String =
    s"$job-${context.getTaskAttemptID}-${Option(TaskContext.get()).fold(0L)(_.taskAttemptId())}"

  def workPath(job: String, output: Path, context: TaskAttemptContext): Path =
    TaskOutput.base(output, job, attempt(job, context), context.getConfiguration)
}
