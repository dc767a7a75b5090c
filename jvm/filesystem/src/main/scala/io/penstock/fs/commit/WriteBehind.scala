package io.penstock.fs.commit

import java.io.{IOException, InterruptedIOException}
import java.util.concurrent.{ConcurrentHashMap, Executors, TimeUnit}
import java.util.{Collections, Map => JavaMap}

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.hadoop.fs.s3a.commit.magic.InMemoryMagicCommitTracker
import org.apache.hadoop.fs.{FSDataOutputStream, FSExceptionMessages, Path}
import org.apache.spark.SparkContext
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}
import org.apache.spark.penstock.ExecutorHosts
import org.slf4j.LoggerFactory

import io.penstock.fs.metrics.Counters

/**
 * Lets tasks end before their files are uploaded: `spark.plugins=io.penstock.fs.commit.WriteBehindPlugin`, with
 * [[WriteBehind.Size]] above 0.
 *
 * What it promises: a job commits only when the store has taken every byte of every file. A task whose file is still on
 * its way hands the driver a [[Ticket]]; its executor uploads on behind the tasks that follow, and tells the driver
 * when the store has the file, or why it never will. The driver waits for every ticket of the job before it decides the
 * job. Where an upload fails, or its executor is lost, the job fails and leaves nothing: its task was done, so that
 * Spark would not run it again.
 *
 * Any other file of the lake is closed as Hadoop promises: here are only files that a task of [[AtomicCommitProtocol]]
 * has begun, which nobody can read before the job commits. Their bytes wait where S3A keeps blocks for their upload; no
 * executor takes up what another one had there, so they need not outlive it.
 */
final class WriteBehindPlugin extends SparkPlugin {

  override def driverPlugin(): DriverPlugin = new DriverPlugin {

    override def init(context: SparkContext, plugin: PluginContext): JavaMap[String, String] = Collections.emptyMap

    override def receive(message: AnyRef): AnyRef = {
      message match {
        case report: UploadReport => RunningJobs.heard(report)
        case _ => ()
      }
      null
    }
  }

  override def executorPlugin(): ExecutorPlugin = new ExecutorPlugin {

    override def init(plugin: PluginContext, settings: JavaMap[String, String]): Unit = {
      val most = plugin.conf.getSizeAsBytes("spark.hadoop." + WriteBehind.Size, "0")
      if (most > 0) WriteBehind.start(new BackgroundUploads(plugin.executorID, most, plugin.ask(_): Unit))
    }

    override def shutdown(): Unit = WriteBehind.stop()
  }
}

/** A file whose task has ended before it was uploaded: the executor owes it. */
final private[commit] case class Ticket(executor: String, file: Location, bytes: Long)

/** What became of a ticket, as its executor tells the driver. */
sealed private[commit] trait UploadReport extends Serializable {
  def job: String
}

private[commit] object UploadReport {
  final case class Arrived(job: String, upload: Upload) extends UploadReport
  final case class Failed(job: String, file: Location, why: String) extends UploadReport
}

/** What is known of one job's tickets. Immutable; told twice, a report is the same. */
final private[commit] case class TicketBook(
    uploads: Map[Location, Upload] = Map.empty,
    failures: Map[Location, String] = Map.empty
) {

  def heard(report: UploadReport): TicketBook = report match {
    case UploadReport.Arrived(_, upload) => copy(uploads = uploads + (upload.location -> upload))
    case UploadReport.Failed(_, file, why) => copy(failures = failures + (file -> why))
  }

  def open(tickets: Seq[Ticket]): Seq[Ticket] = tickets.filterNot(ticket => uploads.contains(ticket.file))

  /**
   * @param gone
   *   executors from which nothing will be heard any more
   * @return
   *   left: why the job cannot commit; else its uploads in the order of the tickets, or none while some are open
   */
  def settled(tickets: Seq[Ticket], gone: Set[String]): Either[String, Option[Vector[Upload]]] = {
    val problem = tickets.iterator
      .flatMap { ticket =>
        (failures.get(ticket.file), uploads.get(ticket.file)) match {
          case (Some(why), _) => Some(s"${ticket.file} could not be uploaded: $why")
          case (None, Some(upload)) if upload.bytes != ticket.bytes =>
            Some(s"${ticket.file} has ${upload.bytes} bytes in the store, and ${ticket.bytes} were written")
          case (None, None) if gone(ticket.executor) =>
            Some(s"executor ${ticket.executor} was lost before it had uploaded ${ticket.file}")
          case _ => None
        }
      }
      .nextOption()
    problem.toLeft(Option.when(open(tickets).isEmpty)(tickets.iterator.map(ticket => uploads(ticket.file)).toVector))
  }
}

/** The jobs of this driver that executors may owe files. Thread-safe; what is heard of other jobs is forgotten. */
private[commit] object RunningJobs {

  private val log = LoggerFactory.getLogger(getClass)

  private val LookMs = 1000L
  private val TellEvery = 10

  private val books = mutable.Map.empty[String, TicketBook]

  def begin(job: String): Unit = synchronized(books.getOrElseUpdate(job, TicketBook()): Unit)

  def end(job: String): Unit = synchronized(books.remove(job): Unit)

  def heard(report: UploadReport): Unit = synchronized {
    for (book <- books.get(report.job)) books(report.job) = book.heard(report)
    notifyAll()
  }

  /**
   * Waits until every ticket's file is uploaded.
   *
   * @param executors
   *   those that are there now; one that is not, twice in a row, is lost
   * @throws java.io.IOException
   *   if one never will be; an `InterruptedIOException` if the thread is interrupted, as it stays
   */
  def uploads(job: String, tickets: Seq[Ticket], executors: () => Set[String]): Vector[Upload] = synchronized {
    def settled(gone: Set[String]) = books.getOrElse(job, TicketBook()).settled(tickets, gone)
    var looks = 0
    var absent = Set.empty[String]
    var state = settled(Set.empty)
    while (state == Right(None)) {
      if (looks % TellEvery == 1) tell(job, tickets)
      val before = books.get(job)
      pause()
      if (books.get(job) == before) {
        val missing = absentOf(tickets, executors)
        state = settled(gone = absent.intersect(missing))
        absent = missing
        looks += 1
      } else state = settled(Set.empty)
    }
    state match {
      case Right(uploads) => uploads.get
      case Left(problem) =>
        throw new IOException(
          s"Job $job is not committed, and its table is as it was: $problem. Run it again; with " +
            s"spark.hadoop.${WriteBehind.Size}=0 tasks wait for their uploads, and Spark runs those again that fail"
        )
    }
  }

  private def pause(): Unit =
    try wait(LookMs)
    catch {
      case e: InterruptedException =>
        Thread.currentThread.interrupt()
        throw new InterruptedIOException("interrupted while executors were uploading files").initCause(e)
    }

  /** Nothing is concluded from a question that was not answered. */
  private def absentOf(tickets: Seq[Ticket], executors: () => Set[String]): Set[String] =
    try tickets.iterator.map(_.executor).toSet -- executors()
    catch { case NonFatal(_) => Set.empty }

  private def tell(job: String, tickets: Seq[Ticket]): Unit = {
    val open = books.getOrElse(job, TicketBook()).open(tickets)
    log.info(s"Job $job: executors still upload ${open.size} of ${tickets.size} files, ${open.map(_.bytes).sum} bytes")
  }
}

/** The files that this executor closes behind its tasks, if it does. */
object WriteBehind {

  /** Bytes of closed files that an executor may still have to upload; when there are more, tasks wait. 0: none. */
  val Size = "fs.s3a.penstock.write.behind.size"

  @volatile private var uploads: Option[BackgroundUploads] = None

  /** By the path that a task is about to create. */
  private val awaited = new ConcurrentHashMap[Path, (Location, AttemptFiles)]

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
  private[commit] def attempt(job: String, taken: () => Vector[Upload]): Option[AttemptFiles] =
    uploads.map(new AttemptFiles(job, _, taken))

  private[commit] def expect(path: Path, file: Location, files: AttemptFiles): Unit =
    awaited.put(path, file -> files): Unit

  private[commit] def forget(path: Path): Unit = awaited.remove(path): Unit

  /** The stream of a path that was just created: one whose `close` does not wait, if a task has said so. */
  private[fs] def created(path: Path, stream: FSDataOutputStream): FSDataOutputStream = awaited.remove(path) match {
    case null => stream
    case (file, files) => new ClosedBehind(stream, path, file, files)
  }

  final private class ClosedBehind(s3a: FSDataOutputStream, path: Path, file: Location, files: AttemptFiles)
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
}

/**
 * The uploads that an executor owes.
 *
 * @param most
 *   bytes of files that may wait at once
 * @param ask
 *   tells the driver of an upload, and returns when it has heard it; may fail, and is tried again then
 */
final private[commit] class BackgroundUploads(val executor: String, most: Long, ask: UploadReport => Unit) {

  import BackgroundUploads._

  private var waiting = 0L
  private var takesMore = true
  @volatile private var stopped = false

  private val threads = Executors.newFixedThreadPool(
    Threads,
    work => {
      val thread = new Thread(work, "penstock-write-behind")
      thread.setDaemon(true)
      thread
    }
  )

  /** Runs it some time, if the bytes have room; false if they do not. */
  def submit(bytes: Long)(upload: () => Seq[UploadReport]): Boolean = {
    val work: Runnable = () => {
      val reports =
        try upload()
        finally synchronized(waiting -= bytes)
      reports.foreach(tell)
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

  private def tell(report: UploadReport): Unit = {
    var told = false
    while (!told)
      try {
        ask(report)
        told = true
      } catch {
        case NonFatal(failure) if !stopped =>
          log.warn(s"The driver has not heard of $report, and will be told again: $failure")
          Thread.sleep(AgainMs)
        case NonFatal(_) => told = true
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
final private[commit] class AttemptFiles(job: String, uploads: BackgroundUploads, taken: () => Vector[Upload]) {

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
  private def ended(file: Location, failed: Option[Throwable]): Seq[UploadReport] = synchronized {
    open.remove(file)
    notifyAll()
    if (!isCommitted) {
      failure = failure.orElse(failed)
      Nil
    } else
      failed.map(why => UploadReport.Failed(job, file, why.toString)).toSeq ++ taken().map(UploadReport.Arrived(job, _))
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
    val owed = open.iterator.collect { case (file, bytes) if !known(file) => Ticket(uploads.executor, file, bytes) }
    (uploaded, owed.toVector)
  }

  /** Waits until nothing of the attempt is on its way any more. */
  def settle(): Unit = synchronized(while (open.nonEmpty) wait())
}

private[commit] object LiveExecutors extends (() => Set[String]) {
  override def apply(): Set[String] = ExecutorHosts.executors()
}
