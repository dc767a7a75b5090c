package io.penstock.fs.commit

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.S3AFileSystem
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.hadoop.mapreduce.{JobContext, TaskAttemptContext}
import org.apache.spark.internal.io.FileCommitProtocol.TaskCommitMessage
import org.apache.spark.internal.io.{FileCommitProtocol, FileNameSpec}
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol
import org.apache.spark.sql.penstock.ReplaceTableAsSelect

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
  @transient private var task: TaskOutput = _

  private def s3a(conf: Configuration): Option[S3AFileSystem] = root.getFileSystem(conf) match {
    case fs: S3AFileSystem => Some(fs)
    case _ => None
  }

  /** How to reach a bucket. */
  protected def open(fs: S3AFileSystem): Bucket = new S3ABucket(fs)

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
    case TaskOutput.Committed(uploads) if job != null => job.accept(uploads)
    case _ => renaming.onTaskCommit(message)
  }

  override def commitJob(context: JobContext, messages: Seq[TaskCommitMessage]): Unit =
    if (job == null) renaming.commitJob(context, messages)
    else
      job.commit(
        messages.iterator.map(_.obj).collect { case TaskOutput.Committed(uploads) => uploads }.toVector.flatten
      )

  override def abortJob(context: JobContext): Unit =
    if (job == null) renaming.abortJob(context) else job.abort()

  override def setupTask(context: TaskAttemptContext): Unit =
    if (s3a(context.getConfiguration).isDefined) task = new TaskOutput(jobId, context, fs => open(fs))
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
    if (task == null) renaming.commitTask(context) else new TaskCommitMessage(task.commit())

  override def abortTask(context: TaskAttemptContext): Unit =
    if (task == null) renaming.abortTask(context) else task.abort()
}
