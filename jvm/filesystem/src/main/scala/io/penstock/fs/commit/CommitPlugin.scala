package io.penstock.fs.commit

import java.io.{IOException, InterruptedIOException}
import java.util.{Collections, Map => JavaMap}

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}
import org.apache.spark.penstock.ExecutorHosts
import org.slf4j.LoggerFactory

/**
 * Carries what executors report of the files of running jobs to the driver:
 * `spark.plugins=io.penstock.fs.commit.CommitPlugin`. [[WriteBehind]] and [[AtomicOutputCommitter]] need it.
 */
final class CommitPlugin extends SparkPlugin {

  override def driverPlugin(): DriverPlugin = new DriverPlugin {

    override def init(context: SparkContext, plugin: PluginContext): JavaMap[String, String] = Collections.emptyMap

    override def receive(message: AnyRef): AnyRef = message match {
      case report: TaskReport => Boolean.box(RunningJobs.heard(report))
      case JobQuestion(output) => RunningJobs.jobOf(output)
      case _ => null
    }
  }

  override def executorPlugin(): ExecutorPlugin = new ExecutorPlugin {

    override def init(plugin: PluginContext, settings: JavaMap[String, String]): Unit = {
      val driver = new DriverLink(plugin.ask)
      DriverLink.current = Some(driver)
      val most = plugin.conf.getSizeAsBytes("spark.hadoop." + WriteBehind.Size, "0")
      if (most > 0) WriteBehind.start(new BackgroundUploads(plugin.executorID, most, driver.report(_): Unit))
    }

    override def shutdown(): Unit = {
      WriteBehind.stop()
      DriverLink.current = None
    }
  }
}

/** An executor's way to the driver. Whatever it asks may fail with an exception of Spark's. */
final private[commit] class DriverLink(ask: AnyRef => AnyRef) {

  /** False where the job is over, or was never begun. */
  def report(report: TaskReport): Boolean = ask(report) == java.lang.Boolean.TRUE

  /** The job that writes to this directory, if one does. */
  def jobOf(output: Location): Option[String] = ask(JobQuestion(output)) match {
    case found: Option[_] => found.map(_.toString)
    case _ => None
  }
}

private[commit] object DriverLink {

  /** None outside an executor, or where Spark was started without the plug-in. */
  @volatile private[commit] var current: Option[DriverLink] = None
}

/** Asks which job writes to a directory. */
final private[commit] case class JobQuestion(output: Location)

/** A file whose task has ended before it was uploaded: the executor owes it. */
final private[commit] case class Ticket(executor: String, attempt: String, file: Location, bytes: Long)

/** What an executor reports of a job's files. */
sealed private[commit] trait TaskReport extends Serializable {
  def job: String
}

private[commit] object TaskReport {

  /** A task is about to create a file whose name does not say which job's it is. */
  final case class Began(job: String, file: Location) extends TaskReport

  /** A task has ended; of several attempts the one that is heard last counts, and each is the whole task's output. */
  final case class Committed(job: String, task: Int, output: TaskOutput.Committed) extends TaskReport

  /** The store has the file of a ticket. */
  final case class Arrived(job: String, attempt: String, upload: Upload) extends TaskReport

  /** The store will never have the file of a ticket. */
  final case class Failed(job: String, attempt: String, file: Location, why: String) extends TaskReport
}

/** What executors have reported of one job. Immutable; a report that comes twice says nothing new. */
final private[commit] case class JobReports(
    output: Location,
    begun: Set[Location] = Set.empty,
    tasks: Map[Int, TaskOutput.Committed] = Map.empty,
    uploads: Map[(String, Location), Upload] = Map.empty,
    failures: Map[(String, Location), String] = Map.empty
) {

  def heard(report: TaskReport): JobReports = report match {
    case TaskReport.Began(_, file) => copy(begun = begun + file)
    case TaskReport.Committed(_, task, output) => copy(tasks = tasks + (task -> output))
    case TaskReport.Arrived(_, attempt, upload) => copy(uploads = uploads + ((attempt, upload.location) -> upload))
    case TaskReport.Failed(_, attempt, file, why) => copy(failures = failures + ((attempt, file) -> why))
  }

  def open(tickets: Seq[Ticket]): Seq[Ticket] = tickets.filterNot(ticket => uploads.contains(idOf(ticket)))

  private def idOf(ticket: Ticket) = (ticket.attempt, ticket.file)

  /**
   * @param gone
   *   executors from which nothing will be heard any more
   * @return
   *   left: why the job cannot commit; else its uploads in the order of the tickets, or none while some are open
   */
  def settled(tickets: Seq[Ticket], gone: Set[String]): Either[String, Option[Vector[Upload]]] = {
    val problem = tickets.iterator
      .flatMap { ticket =>
        (failures.get(idOf(ticket)), uploads.get(idOf(ticket))) match {
          case (Some(why), _) => Some(s"${ticket.file} could not be uploaded: $why")
          case (None, Some(upload)) if upload.bytes != ticket.bytes =>
            Some(s"${ticket.file} has ${upload.bytes} bytes in the store, and ${ticket.bytes} were written")
          case (None, None) if gone(ticket.executor) =>
            Some(s"executor ${ticket.executor} was lost before it had uploaded ${ticket.file}")
          case _ => None
        }
      }
      .nextOption()
    problem.toLeft(Option.when(open(tickets).isEmpty)(tickets.iterator.map(t => uploads(idOf(t))).toVector))
  }
}

/** The jobs of this driver that executors may report files of. Thread-safe. */
private[commit] object RunningJobs {

  private val log = LoggerFactory.getLogger(getClass)

  private val LookMs = 1000L
  private val LogEvery = 10

  private val running = mutable.Map.empty[String, JobReports]

  def begin(job: String, output: Location): Unit =
    synchronized(running.getOrElseUpdate(job, JobReports(output)): Unit)

  /** What was reported of the job, of which nothing is heard from now on; none where that was so before. */
  def end(job: String): Option[JobReports] = synchronized(running.remove(job))

  /** The tasks whose output was reported, as it is now. */
  def committed(job: String): Vector[TaskOutput.Committed] = synchronized {
    running.get(job).fold(Vector.empty[TaskOutput.Committed])(_.tasks.toVector.sortBy(_._1).map(_._2))
  }

  /** False where the job is not running: what is reported of it is forgotten. */
  def heard(report: TaskReport): Boolean = synchronized {
    val reports = running.get(report.job)
    for (before <- reports) running(report.job) = before.heard(report)
    notifyAll()
    reports.isDefined
  }

  /** Throws an `IllegalStateException` where two jobs write to the directory. */
  def jobOf(output: Location): Option[String] = synchronized {
    val found = running.iterator.collect { case (job, reports) if reports.output == output => job }.toVector
    if (found.sizeIs > 1)
      throw new IllegalStateException(
        s"Jobs ${found.sorted.mkString(" and ")} write to $output at once, and this task does not say whose it is. " +
          "Run one after the other, or give Spark a configuration from org.apache.hadoop.mapreduce.Job.getInstance"
      )
    found.headOption
  }

  /**
   * Waits until every ticket's file is uploaded.
   *
   * @param executors
   *   those that are there now; one that is not, twice in a row, is lost
   * @throws java.io.IOException
   *   if one never will be; an `InterruptedIOException` if the thread is interrupted, as it stays
   */
  def uploads(
      job: String,
      tickets: Seq[Ticket],
      executors: () => Set[String] = ExecutorHosts.executors _
  ): Vector[Upload] = synchronized {
    def settled(gone: Set[String]) = reports(job).settled(tickets, gone)
    var looks = 0
    var absent = Set.empty[String]
    var state = settled(Set.empty)
    while (state == Right(None)) {
      if (looks % LogEvery == 1) logOpen(job, tickets)
      val before = reports(job)
      pause()
      if (reports(job) == before) {
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

  private def reports(job: String): JobReports =
    running.getOrElse(job, throw new IOException(s"Job $job is over, and waits for no upload any more"))

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

  private def logOpen(job: String, tickets: Seq[Ticket]): Unit = {
    val open = reports(job).open(tickets)
    log.info(s"Job $job: executors still upload ${open.size} of ${tickets.size} files, ${open.map(_.bytes).sum} bytes")
  }
}
