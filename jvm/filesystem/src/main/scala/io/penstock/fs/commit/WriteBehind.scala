package io.penstock.fs.commit

import java.io.IOException
import java.util.concurrent.{Executors, TimeUnit}

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.commons.lang3.concurrent.BasicThreadFactory
import org.apache.hadoop.fs.s3a.commit.magic.InMemoryMagicCommitTracker
import org.apache.hadoop.fs.{FSDataOutputStream, FSExceptionMessages, Path}
import org.slf4j.LoggerFactory

import io.penstock.fs.metrics.Counters

/**
 * Lets tasks end before their files are uploaded, in an executor with the [[CommitPlugin]] and [[WriteBehind.Size]]
 * above 0.
 *
 * What it promises: a job commits only when the store has taken every byte of every file. A task whose file is still on
 * its way hands the driver a [[Ticket]]; its executor uploads on behind the tasks that follow, and reports when the
 * store has the file, or why it never will. The driver waits for every ticket of the job before it decides the job.
 * Where an upload fails, or its executor is lost, the job fails and leaves nothing: its task was done, so that Spark
 * would not run it again.
 *
 * Any other file of the lake is closed as Hadoop promises: here are only files of a [[TaskOutput]], which nobody can
 * read before the job commits. Their bytes wait where S3A keeps blocks for their upload; no executor takes up what
 * another one had there, so they need not outlive it.
 */
object WriteBehind {

  /** Bytes of closed files that an executor may still have to upload; when there are more, tasks wait. 0: none. */
  val Size = "fs.s3a.penstock.write.behind.size"

  @volatile private var uploads: Option[BackgroundUploads] = None

  private[commit] def start(started: BackgroundUploads): Unit = {
    stop()
    uploads = Some(started)
  }

  private[commit] def stop(): Unit = {
    val stopped = uploads
    uploads = None
    stopped.foreach(_.stop())
  }

  /** For the files of an attempt; none where they are closed as ever. */
  private[commit] def attempt(job: String, name: String, taken: () => Vector[Upload]): Option[AttemptFiles] =
    uploads.map(new AttemptFiles(job, name, _, taken))
}

/** A stream whose `close` does not wait for the upload, where there is room. */
final private[commit] class ClosedBehind(s3a: FSDataOutputStream, path: Path, file: Location, files: AttemptFiles)
    extends FSDataOutputStream(s3a.getWrappedStream, null) {

  @volatile private var handedOver = false

  private def checkOpen(): Unit =
    if (handedOver) throw new IOException(s"$path: ${FSExceptionMessages.STREAM_IS_CLOSED}")

  override def write(byte: Int): Unit = {
    checkOpen()
    super.write(byte)
  }

  override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
    checkOpen()
    super.write(bytes, offset, length)
  }

  private def closeNow(): Unit = super.close()

  override def close(): Unit = if (!handedOver) {
    handedOver = files.closing(path, file, getPos)(closeNow())
    if (!handedOver) closeNow()
  }
}

/**
 * The uploads that an executor owes.
 *
 * @param most
 *   bytes of files that may wait at once
 * @param ask
 *   sends the driver a report, and returns when it has received it; may fail, and is tried again then
 */
final private[commit] class BackgroundUploads(val executor: String, most: Long, ask: TaskReport => Unit) {

  import BackgroundUploads._

  private var waiting = 0L
  private var takesMore = true
  @volatile private var stopped = false

  private val threads = Executors.newFixedThreadPool(
    Threads,
    BasicThreadFactory.builder().namingPattern("penstock-write-behind").daemon(true).build()
  )

  /** Runs it some time, if the bytes have room; false if they do not. */
  def submit(bytes: Long)(upload: () => Seq[TaskReport]): Boolean = {
    val work: Runnable = () => {
      val reports =
        try upload()
        finally synchronized(waiting -= bytes)
      reports.foreach(deliver)
    }
    synchronized {
      val fits = takesMore && waiting + bytes <= most
      if (fits) {
        waiting += bytes
        threads.execute(work)
      }
      fits
    }
  }

  private def deliver(report: TaskReport): Unit = {
    var again = true
    while (again)
      try {
        ask(report)
        again = false
      } catch {
        case NonFatal(failure) if !stopped =>
          log.warn(s"The driver may not have received $report, which is sent again: $failure")
          Thread.sleep(AgainMs)
        case NonFatal(_) => again = false
      }
  }

  /** Ends what was begun, as far as there is time: an executor that is asked to leave redeems its tickets first. */
  def stop(): Unit = {
    synchronized {
      takesMore = false
      threads.shutdown()
    }
    threads.awaitTermination(StopSeconds, TimeUnit.SECONDS): Unit
    stopped = true
  }
}

private[commit] object BackgroundUploads {

  private val log = LoggerFactory.getLogger(classOf[BackgroundUploads])

  /** Each waits for one file; S3A's own threads send its parts. */
  private val Threads = 16

  private val AgainMs = 1000L

  /** Less than the half minute that Kubernetes gives a pod. */
  private val StopSeconds = 20L
}

/**
 * The files of one attempt of a task. Thread-safe.
 *
 * @param taken
 *   takes what S3A has noted of the attempt's uploads since it was last asked
 */
final private[commit] class AttemptFiles(
    job: String,
    attempt: String,
    uploads: BackgroundUploads,
    taken: () => Vector[Upload]
) {

  private val open = mutable.Map.empty[Location, Long]
  private var failure: Option[Throwable] = None
  private var isCommitted = false

  /** Those that are on their way. */
  def openFiles: Set[Location] = synchronized(open.keySet.toSet)

  /**
   * Closes a file behind its task.
   *
   * @param bytes
   *   that it has
   * @return
   *   false if there is no room, so that the task must close it itself
   */
  def closing(path: Path, file: Location, bytes: Long)(close: => Unit): Boolean = {
    synchronized(open(file) = bytes)
    // Spark asks for its length as soon as it is closed; S3A answers from here.
    InMemoryMagicCommitTracker.getPathToBytesWritten.put(path, bytes)
    val submitted = uploads.submit(bytes) { () =>
      val failed =
        try {
          close
          None
        } catch { case e: Throwable => Some(e) }
      if (failed.isDefined) InMemoryMagicCommitTracker.getPathToBytesWritten.remove(path)
      ended(file, failed)
    }
    if (submitted) Counters.FilesClosedBehind.increment()
    else
      synchronized {
        open.remove(file)
        notifyAll()
      }
    submitted
  }

  /** What the driver has to hear of it: what ends before the task commits it hears from the task. */
  private def ended(file: Location, failed: Option[Throwable]): Seq[TaskReport] = synchronized {
    open.remove(file)
    notifyAll()
    if (!isCommitted) {
      failure = failure.orElse(failed)
      Nil
    } else
      failed.map(why => TaskReport.Failed(job, attempt, file, why.toString)).toSeq ++
        taken().map(TaskReport.Arrived(job, attempt, _))
  }

  /**
   * The attempt's uploads so far, and tickets for its other files, of which the driver hears from now on.
   *
   * @throws java.io.IOException
   *   if one has failed already: the task can still be run again
   */
  def commit(): (Vector[Upload], Vector[Ticket]) = synchronized {
    failure.foreach(why => throw new IOException(s"A file of this task could not be uploaded: $why", why))
    isCommitted = true
    val uploaded = taken()
    val known = uploaded.iterator.map(_.location).toSet
    val owed = open.iterator.collect {
      case (file, bytes) if !known(file) => Ticket(uploads.executor, attempt, file, bytes)
    }
    (uploaded, owed.toVector)
  }

  /** Waits until nothing of the attempt is on its way any more. */
  def settle(): Unit = synchronized(while (open.nonEmpty) wait())
}
