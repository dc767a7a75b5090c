package io.penstock.fs.commit

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.hadoop.fs.s3a.S3AFileSystem
import org.apache.hadoop.fs.s3a.commit.CommitConstants
import org.slf4j.LoggerFactory

/** One job's output on the driver. */
final private[commit] class JobOutput(
    job: String,
    root: Path,
    dynamicPartitionOverwrite: Boolean,
    conf: Configuration,
    open: S3AFileSystem => Bucket
) {

  import JobOutput._

  private val buckets =
    new Buckets(name => open(new Path(s"s3a://$name/").getFileSystem(conf).asInstanceOf[S3AFileSystem]))
  private val table = JobOutput.directory(root.getFileSystem(conf).asInstanceOf[S3AFileSystem], root)
  private val parallel = Parallel.of(conf)

  private val replacedBelow = mutable.Set.empty[Location]
  private val accepted = mutable.Buffer.empty[Upload]

  /** Once true, taking the job back could take back what is decided. */
  private var mayBeDecided = false

  /** The write's own settings: what it replaces may be told before it begins, with those of the file system. */
  private var settings = conf

  /**
   * The job begins. Throws an `IOException` where the store cannot order commits, which is asked once for each bucket
   * of this process.
   */
  def begin(settings: Configuration): Unit = {
    this.settings = settings
    val store = (table.bucket, conf.get("fs.s3a.endpoint", ""))
    if (!proven.contains(store)) {
      new Journal(buckets(table.bucket), table).requireConditions()
      proven.add(store): Unit
    }
  }

  /** Spark asks for this to be deleted before the job; it will be once the job is decided. */
  def replace(fs: S3AFileSystem, path: Path): Unit = synchronized(replacedBelow += JobOutput.directory(fs, path))

  /** A task's result has come. */
  def accept(uploads: Vector[Upload]): Unit = synchronized(accepted ++= uploads)

  def commit(uploads: Vector[Upload]): Unit = {
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
      case e: Throwable =>
        mayBeDecided = false
        throw e
    }
  }

  /** Leaves nothing of the job; a decided job is left to be carried out by the next one. May be called twice. */
  def abort(): Unit =
    if (mayBeDecided) log.warn(s"Job $job is not taken back: it is decided, or may be")
    else {
      val known = synchronized(accepted.toVector)
      Leftovers.abort(buckets, parallel, job, CommitRecord.places(table, known))
    }
}

private[commit] object JobOutput {

  private val log = LoggerFactory.getLogger(classOf[JobOutput])

  /** How long another job's commit to the same table is left to its driver before this job finishes it. */
  val Patience = "fs.s3a.penstock.commit.patience"
  private val DefaultPatience = 10000L

  def patience(conf: Configuration): Long = conf.getTimeDuration(Patience, DefaultPatience, TimeUnit.MILLISECONDS)

  def directory(fs: S3AFileSystem, path: Path): Location = {
    val key = fs.makeQualified(path).toUri.getPath.stripPrefix("/").stripSuffix("/")
    Location(fs.getBucket, if (key.isEmpty) "" else key + "/")
  }

  /** Buckets of stores that are known to have conditional writes, by their URI and their endpoint's. */
  private val proven = ConcurrentHashMap.newKeySet[(String, String)]()
}
