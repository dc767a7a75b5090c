package io.penstock.fs.commit

import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.S3AFileSystem
import org.apache.hadoop.fs.s3a.commit.CommitConstants
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl
import org.apache.hadoop.mapreduce.{TaskAttemptID, TaskType}
import org.apache.spark.internal.io.FileNameSpec

import io.penstock.fs.testing.{Requests, Store}

/** A table of text files on the tests' store, written as Spark's tasks and driver write it, without Spark. */
final class WrittenTable(bucket: Store.Bucket, name: String, settings: Configuration) {

  private val conf = {
    val conf = new Configuration(settings)
    conf.setBoolean(CommitConstants.FS_S3A_COMMITTER_MAGIC_TRACK_COMMITS_IN_MEMORY_ENABLED, true)
    conf.set(JobOutput.Patience, "0ms")
    conf
  }

  val path: org.apache.hadoop.fs.Path = bucket.path(name)

  def fs: S3AFileSystem = path.getFileSystem(conf).asInstanceOf[S3AFileSystem]

  def buckets: ObjectStores = new ObjectStores(name => new S3AObjectStore(ObjectStores.fileSystem(path, name, conf)))

  def newJob(): String = UUID.randomUUID().toString

  /** The output of one attempt of a task, one file in each of the directories. */
  def attempt(
      job: String,
      directories: Seq[String],
      text: String,
      partition: Int = 0,
      attempt: Int = 0
  ): TaskAttempt = {
    val output = task(job, partition, attempt)
    directories.foreach(write(output, _, text))
    new TaskAttempt(output)
  }

  private[commit] def task(job: String, partition: Int = 0, attempt: Int = 0): NamedTaskOutput = {
    val id = new TaskAttemptID("20260101", 0, TaskType.MAP, partition, attempt)
    new NamedTaskOutput(job, new TaskAttemptContextImpl(conf, id), new S3AObjectStore(_))
  }

  private[commit] def write(output: NamedTaskOutput, directory: String, text: String): Unit =
    Using.resource(fs.create(output.file(bucket.path(s"$name/$directory"), FileNameSpec("", ".txt")))) { stream =>
      stream.write(text.getBytes(UTF_8))
    }

  final class TaskAttempt(output: TaskOutput) {
    def uploads: Vector[Upload] = output.uploads
    def abort(): Unit = output.abort()
  }

  private[commit] def job(
      id: String,
      dynamic: Boolean = false,
      open: S3AFileSystem => ObjectStore = new S3AObjectStore(_)
  ): JobOutput = new JobOutput(id, path, dynamic, conf, open)

  /** One job that writes `text` to one file in each directory. */
  def append(directories: Seq[String], text: String): Unit = {
    val id = newJob()
    job(id).commit(attempt(id, directories, text).uploads)
  }

  private[commit] def overwrite(
      id: String,
      directories: Seq[String],
      text: String,
      open: S3AFileSystem => ObjectStore = new S3AObjectStore(_)
  ): Unit = {
    val output = job(id, open = open)
    output.replace(fs, path)
    output.commit(attempt(id, directories, text).uploads)
  }

  private[commit] def sweep(dryRun: Boolean = false): Sweep.Report =
    new Sweep(buckets, new Parallel(4), cutoff = Long.MaxValue, dryRun).run(Location(bucket.name, name + "/"))

  /** Directory and text of each file that a reader sees. */
  def contents: Seq[(String, String)] = for {
    key <- bucket.list(name + "/")
    relative = key.stripPrefix(name + "/")
    if relative.nonEmpty && !relative.endsWith("/") && !relative.split('/').exists(_.startsWith("_"))
    text <- bucket.get(key)
  } yield (CommitRecord.parent(relative).stripSuffix("/"), new String(text, UTF_8))

  /** Keys and uploads that are there only while a job runs, or because one was killed. */
  def remains: Seq[String] = {
    val (commitLog, others) = bucket
      .list(name + "/")
      .filter(_.contains(CommitLog.Directory))
      .partition(CommitLog.tableOf(bucket.name, _).isDefined)
    bucket.pendingUploads().filter(_.startsWith(name + "/")) ++
      bucket.list(name + "/").filter(_.contains("__magic")) ++ others ++
      commitLog.dropRight(1) ++ commitLog.lastOption.filterNot(bucket.get(_).exists(_.isEmpty))
  }
}

/**
 * What a commit costs: `mvn -f jvm/pom.xml test-compile exec:java -pl filesystem -Dexec.classpathScope=test
 * -Dexec.mainClass=io.penstock.fs.commit.CommitBench`, on the store that `PENSTOCK_TEST_S3_ENDPOINT` names.
 *
 * Prints for 1, 100 and 1000 files (or the numbers given), three times each: milliseconds of an append's commit and of
 * the commit that replaces it, and the requests of each.
 */
object CommitBench {

  def main(arguments: Array[String]): Unit = {
    val bucket = Store.newBucket()
    val conf = Store.conf()
    conf.set("fs.s3a.connection.maximum", "128")
    println("files  round  append_ms  overwrite_ms  append_requests  overwrite_requests")
    for {
      files <- if (arguments.isEmpty) Seq(1, 100, 1000) else arguments.toSeq.map(_.toInt)
      round <- 1 to 3
    } {
      val table = new WrittenTable(bucket, s"bench-$files-$round", conf)
      val directories = (1 to files).map(n => s"p=$n")
      val (append, appendRequests) = commit(table, directories, replace = false)
      val (overwrite, overwriteRequests) = commit(table, directories, replace = true)
      println(f"$files%5d  $round%5d  $append%9d  $overwrite%12d  $appendRequests%s  $overwriteRequests%s")
    }
  }

  private def commit(table: WrittenTable, directories: Seq[String], replace: Boolean): (Long, String) = {
    val id = table.newJob()
    val uploads = table.attempt(id, directories, "x").uploads
    val output = table.job(id)
    if (replace) output.replace(table.fs, table.path)
    val start = System.nanoTime
    val requests = Requests.during(output.commit(uploads))
    ((System.nanoTime - start) / 1000000, requests.toVector.sorted.map { case (kind, n) => s"$kind=$n" }.mkString(","))
  }
}
