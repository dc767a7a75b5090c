package io.penstock.fs.commit

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.hadoop.fs.s3a.S3AFileSystem

/**
 * The order of a table's commits: objects `_penstock_commit/GENERATION` below the table. One with content is a
 * [[CommitRecord]] being carried out; an empty one is finished. At rest there is one, empty.
 *
 * The next generation is created only when the latest is finished, and by a PUT that must not find one, so commits have
 * one order although nobody holds a lock that a dead driver could keep. The latest is never deleted: were it, a driver
 * that has slept since it looked could create its generation a second time. One that sleeps long enough to create a
 * generation that was deleted finds a higher one when it looks again, and knows its record to be void.
 *
 * Beside it `_penstock_commit/JOB.outcome` says what became of a job whose record is in the commit log, as those who
 * carry it out agree: see [[Outcome]]. The job's own driver takes it away when it has reported success; that a job is
 * lost stays.
 */
final private[commit] class CommitLog(bucket: ObjectStore, table: Location) {

  import CommitLog._

  private val directory = table.key + Directory

  def key(generation: Long): Location = Location(bucket.name, directory + f"$generation%012d")

  /** Ascending. */
  def entries(): Vector[Entry] =
    bucket
      .list(directory)
      .flatMap(listed =>
        generation(listed.key).map(generation => Entry(generation, listed.bytes == 0, listed.modified))
      )
      .toVector

  def latest(): Option[Entry] = entries().lastOption

  /** None where the generation is finished, or superseded and gone. */
  def read(generation: Long): Option[CommitRecord] = {
    val at = key(generation)
    bucket.read(at.key).filter(_.nonEmpty).map(CommitRecord.read(_, at))
  }

  /** Whether the generation now holds this very record. */
  def append(generation: Long, record: CommitRecord): Boolean =
    bucket.create(key(generation).key, CommitRecord.write(record)) || holds(generation, record)

  def holds(generation: Long, record: CommitRecord): Boolean = read(generation).exists(_.job == record.job)

  /**
   * Nothing is left to do for this generation, and those before it are no longer needed; nor is the outcome of the job
   * whose own driver says so.
   */
  def finish(generation: Long, superseded: Seq[Long], own: Option[String]): Unit = {
    bucket.write(key(generation).key, Array.emptyByteArray)
    val needless = superseded.map(key(_).key) ++ own.map(outcomeKey)
    if (needless.nonEmpty) bucket.delete(needless)
  }

  /** Takes back a record that is void because a later generation exists. */
  def withdraw(generation: Long): Unit = bucket.delete(Seq(key(generation).key))

  /** What is agreed of a job; none where nobody has carried it out, or its driver knows already that it has landed. */
  def outcome(job: String): Option[Outcome] = bucket.read(outcomeKey(job)).map(Outcome.read)

  /**
   * What is agreed of a job once this was proposed: what was proposed first. None where that has been forgotten
   * meanwhile.
   */
  def agree(job: String, proposed: Outcome): Option[Outcome] =
    if (bucket.create(outcomeKey(job), proposed.content)) Some(proposed) else outcome(job)

  /** For good: whoever asks for this job's outcome, however late, learns that it is lost. */
  def confirmLost(job: String): Unit = bucket.write(outcomeKey(job), Outcome.Lost.content)

  /** Takes back a proposal that came too late. */
  def withdraw(job: String): Unit = if (outcome(job).contains(Outcome.Losing)) bucket.delete(Seq(outcomeKey(job)))

  /** The job's driver knows that it has landed, and nobody else will ask. */
  def forget(job: String): Unit = bucket.delete(Seq(outcomeKey(job)))

  private def outcomeKey(job: String): String = directory + job + OutcomeSuffix

  /**
   * Throws an `IOException` where the store creates an object although there is one: two jobs would both take
   * themselves for the next generation.
   */
  def requireConditions(): Unit = {
    val probe = s"$directory$Probe${UUID.randomUUID}"
    // Of two that create one object the second is refused; the first, too, if it was sent twice.
    val accepted = bucket.create(probe, Array.emptyByteArray) && bucket.create(probe, Array.emptyByteArray)
    bucket.delete(Seq(probe))
    if (accepted)
      throw new IOException(
        s"Nothing can be written to $table: its store, or what stands before it, ignores If-None-Match, so that of two " +
          "jobs at once one would be lost. Use a store that has conditional writes (Ceph, MinIO, AWS S3), or other " +
          "committers: spark.sql.sources.commitProtocolClass, mapreduce.outputcommitter.factory.scheme.s3a"
      )
  }
}

/**
 * What has become of a decided job. Whoever carries it out proposes what it found, and the first proposal counts for
 * all, so that nobody takes back what another has finished, nor calls done what another takes back.
 */
sealed abstract private[commit] class Outcome(text: String) {
  val content: Array[Byte] = text.getBytes(UTF_8)
}

private[commit] object Outcome {

  /** All of its files were there: from now on old files are deleted, and nothing of the job is. */
  case object Landed extends Outcome("landed")

  /** Some of its files cannot come any more. It counts only while the record is unfinished: see [[TableCommit]]. */
  case object Losing extends Outcome("losing")

  /** It is being undone, or was; or its driver has given up a record that may still arrive, which is undone then. */
  case object Lost extends Outcome("lost")

  def read(content: Array[Byte]): Outcome = {
    val text = new String(content, UTF_8)
    Seq(Landed, Losing, Lost)
      .find(outcome => new String(outcome.content, UTF_8) == text)
      .getOrElse(
        throw new IOException(s"'${text.take(40)}' is no outcome of a job that this version of Penstock knows")
      )
  }
}

private[fs] object CommitLog {

  private val OutcomeSuffix = ".outcome"

  private val Probe = ".conditions-"

  /**
   * Whether nobody needs it after a while. Of outcomes, which differ by length, that a job is lost is kept for good.
   */
  def isTransient(listed: Listed): Boolean = listed.key.contains(Directory + Probe) ||
    (listed.key.endsWith(OutcomeSuffix) && listed.bytes != Outcome.Lost.content.length)

  /** Spark, Hive and other readers take names that begin with an underscore for no data. */
  val Directory = "_penstock_commit/"

  final case class Entry(generation: Long, finished: Boolean, modified: Long)

  /** Of a key of the commit log. */
  def generation(key: String): Option[Long] = key.substring(key.lastIndexOf('/') + 1).toLongOption

  /** The table that a key belongs to the commit log of. */
  def tableOf(bucket: String, key: String): Option[Location] = {
    val directory = CommitRecord.parent(key)
    if (directory == Directory || directory.endsWith("/" + Directory))
      generation(key).map(_ => Location(bucket, directory.stripSuffix(Directory)))
    else None
  }
}

/** Which commits a table has seen, for jobs that replace what they have read of it. */
object TableVersion {

  /** Option of a write: it fails with a [[TableChanged]] where this is no longer the table's version. */
  val Expected = "fs.s3a.penstock.commit.expected.version"

  /**
   * The number of the latest commit by [[AtomicCommitProtocol]] to the table of this directory, 0 where there was none.
   * What is listed afterwards has that commit's files. Files that other programs add or delete do not change it.
   *
   * Throws an `IOException` where the store cannot be asked, or a commit that was left behind not be finished.
   */
  def of(table: Path, conf: Configuration): Long = {
    val fs = table.getFileSystem(conf).asInstanceOf[S3AFileSystem]
    val buckets = new ObjectStores(name => new S3AObjectStore(ObjectStores.fileSystem(table, name, conf)))
    new TableCommit(buckets, Location.directory(fs, table), Parallel.of(conf), JobOutput.patience(conf)).version()
  }
}
