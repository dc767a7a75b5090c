package io.penstock.cluster.observe

import java.io.StringWriter
import java.nio.file.{Path, Paths}
import java.util.concurrent.atomic.AtomicReference
import java.util.concurrent.{ConcurrentHashMap, ScheduledThreadPoolExecutor, TimeUnit}
import java.util.{Map => JavaMap}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.core.{JsonFactory, JsonGenerator}
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}
import org.apache.spark.scheduler.{SparkListenerApplicationEnd, SparkListenerEvent}
import org.apache.spark.{SparkContext, SparkFirehoseListener, TaskFailedReason}
import org.slf4j.LoggerFactory

import io.penstock.cluster.protocol.AtomicFile
import io.penstock.fs.metrics.Counters
import io.penstock.skipping.model.SkippingCounters

/**
 * Publishes the progress of an application, which others watch without a request to its driver:
 * `spark.plugins=io.penstock.cluster.observe.ObserverPlugin`.
 *
 * Writes `progress.json` (at most four times a second) and `summary.json` (at the end) into `spark.penstock.directory`.
 * Observing never fails the application: a failure is logged once, and the files stay as they are.
 */
class ObserverPlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = new ObserverPlugin.Driver
  override def executorPlugin(): ExecutorPlugin = new ObserverPlugin.Executor
}

private object ObserverPlugin {

  private val IntervalMs = 250L
  private val log = LoggerFactory.getLogger(classOf[ObserverPlugin])

  /** The counters of an executor since it started: cumulative, so that a lost or repeated message does no harm. */
  final case class ExecutorCounts(executorId: String, counts: Map[String, Long])

  final class Driver extends DriverPlugin {

    private val counts = new ConcurrentHashMap[String, Map[String, Long]]
    @volatile private var writer: Option[Writer] = None

    override def init(context: SparkContext, plugin: PluginContext): JavaMap[String, String] = {
      writer = Option(context.getConf.get("spark.penstock.directory", null))
        .map(directory => new Writer(Paths.get(directory), () => total()))
      writer.foreach(context.addSparkListener)
      ApplicationCounts.from(() => total())
      java.util.Collections.emptyMap
    }

    override def receive(message: AnyRef): AnyRef = {
      message match {
        // Two tasks that end together may report in the wrong order.
        case ExecutorCounts(executor, reading) => counts.merge(executor, reading, CountsOfAll.later(_, _))
        case _ =>
      }
      null
    }

    override def shutdown(): Unit = {
      ApplicationCounts.none()
      writer.foreach(_.finish())
    }

    private def total(): Map[String, Long] = counts.values.asScala.foldLeft(Counters.now())(CountsOfAll.sum)
  }

  /** Folds the events on the listener's thread and writes on its own: the bus never waits for a disk. */
  final private class Writer(directory: Path, counts: () => Map[String, Long]) extends SparkFirehoseListener {

    private val seen = new AtomicReference(ApplicationState())
    private var written = seen.get
    private var complained = false
    private val timer = {
      val timer = new ScheduledThreadPoolExecutor(
        1,
        { (work: Runnable) =>
          val thread = new Thread(work, "penstock-observer")
          thread.setDaemon(true)
          thread
        }
      )
      timer.scheduleWithFixedDelay(() => progress(), IntervalMs, IntervalMs, TimeUnit.MILLISECONDS)
      timer
    }

    // Spark removes a listener that throws, and one strange event must not end the observing of all that follow.
    override def onEvent(event: SparkListenerEvent): Unit = quietly {
      seen.lazySet(seen.get.after(event))
      if (event.isInstanceOf[SparkListenerApplicationEnd]) summarise()
    }

    /** Called when the bus has stopped and every executor's last message has arrived. */
    def finish(): Unit = {
      timer.shutdown()
      summarise()
    }

    private def summarise(): Unit = {
      progress()
      quietly {
        val summary = Reports.summary(seen.get, counts(), SkippingCounters.now(), now())
        AtomicFile.replace(directory.resolve("summary.json"), summary)
      }
    }

    private def progress(): Unit = synchronized {
      val current = seen.get
      if (current ne written) quietly {
        AtomicFile.replace(directory.resolve("progress.json"), Reports.progress(current, now()))
        written = current
      }
    }

    private def now(): Long = System.currentTimeMillis

    private def quietly(work: => Unit): Unit =
      try work
      catch {
        case NonFatal(problem) if !complained =>
          complained = true
          log.warn("The application goes on, but is not observed any more", problem)
        case NonFatal(_) =>
      }
  }

  /** Reports before the task's own end is reported, so that totals are complete when the last task is. */
  final class Executor extends ExecutorPlugin {

    private var context: PluginContext = _
    private val sent = new AtomicReference(Map.empty[String, Long])

    override def init(context: PluginContext, extraConf: JavaMap[String, String]): Unit = this.context = context
    override def onTaskSucceeded(): Unit = report()
    override def onTaskFailed(reason: TaskFailedReason): Unit = report()

    private def report(): Unit =
      try {
        val reading = Counters.now().filter(_._2 != 0)
        if (sent.getAndSet(reading) != reading) context.send(ExecutorCounts(context.executorID, reading))
      } catch { case NonFatal(problem) => log.debug("Counts not sent", problem) }
  }
}

/**
 * The file systems' counters of driver and executors together, for code that runs in the driver.
 *
 * Executors send a task's counts before its end, so the counters include an action's requests once it has returned.
 */
object ApplicationCounts {

  @volatile private var observed: Option[() => Map[String, Long]] = None

  /** Sums by name (`io.penstock.fs.metrics.Counters`); None where the application is not observed. */
  def now(): Option[Map[String, Long]] = observed.map(_())

  private[cluster] def from(counts: () => Map[String, Long]): Unit = observed = Some(counts)

  private[cluster] def none(): Unit = observed = None
}

/** The content of `progress.json`, written while the application runs, and of `summary.json`, written at its end. */
private[cluster] object Reports {

  private val factory = new JsonFactory

  def progress(seen: ApplicationState, nowMs: Long): String = json { out =>
    out.writeStringField("application_id", seen.applicationId)
    out.writeStringField("name", seen.name)
    out.writeStringField("description", seen.description)
    out.writeNumberField("jobs_done", seen.jobsDone)
    out.writeArrayFieldStart("stages")
    for (stage <- seen.activeStages.toSeq.sortBy(_._1).map(_._2)) {
      out.writeStartObject()
      out.writeNumberField("id", stage.id)
      out.writeStringField("name", stage.name)
      out.writeNumberField("tasks", stage.tasks)
      out.writeNumberField("done", stage.done)
      out.writeNumberField("running", stage.running)
      out.writeNumberField("failed", stage.failed)
      out.writeEndObject()
    }
    out.writeEndArray()
    out.writeNumberField("stages_done", seen.stagesDone)
    out.writeNumberField("tasks_done", seen.tasksDone)
    out.writeNumberField("tasks_failed", seen.tasksFailed)
    out.writeNumberField("rows_read", seen.work.rowsRead)
    out.writeNumberField("bytes_read", seen.work.bytesRead)
    out.writeNumberField("bytes_written", seen.work.bytesWritten)
    out.writeNumberField("shuffle_bytes", seen.work.shuffleReadBytes + seen.work.shuffleWriteBytes)
    out.writeNumberField("executors", seen.executors.size)
    out.writeNumberField("updated_ms", nowMs)
    out.writeNumberField("first_task_ms", seen.firstTaskLaunchedMs)
  }

  /**
   * `counts` are the file system's, of all processes; `skipping` are the driver's, which alone lists a table's files.
   */
  def summary(
      seen: ApplicationState,
      counts: Map[String, Long],
      skipping: Seq[(String, Long)],
      nowMs: Long
  ): String = json { out =>
    val work = seen.work
    val endedMs = if (seen.endedMs == 0) nowMs else seen.endedMs
    out.writeNumberField("elapsed_ms", if (seen.startedMs == 0) 0 else endedMs - seen.startedMs)
    out.writeNumberField("task_ms", work.taskMs)
    out.writeNumberField("executor_cpu_ms", work.cpuNs / 1000000)
    out.writeNumberField("gc_ms", work.gcMs)
    out.writeNumberField("rows_read", work.rowsRead)
    out.writeNumberField("bytes_read", work.bytesRead)
    out.writeNumberField("rows_written", work.rowsWritten)
    out.writeNumberField("bytes_written", work.bytesWritten)
    out.writeNumberField("shuffle_read_bytes", work.shuffleReadBytes)
    out.writeNumberField("shuffle_write_bytes", work.shuffleWriteBytes)
    out.writeNumberField("spill_memory_bytes", work.spillMemoryBytes)
    out.writeNumberField("spill_disk_bytes", work.spillDiskBytes)
    out.writeNumberField("peak_execution_memory_bytes", work.peakExecutionMemoryBytes)
    out.writeNumberField("peak_heap_bytes", seen.peakHeapBytes)
    out.writeNumberField("tasks", seen.tasksDone)
    out.writeNumberField("tasks_failed", seen.tasksFailed)
    out.writeNumberField("stages", seen.stagesDone)
    out.writeNumberField("jobs", seen.jobsDone)
    out.writeNumberField("context_started_ms", seen.startedMs)
    out.writeNumberField("first_task_launched_ms", seen.firstTaskLaunchedMs)
    out.writeNumberField("first_task_finished_ms", seen.firstTaskFinishedMs)
    lake(out, counts)
    out.writeObjectFieldStart("skipping")
    for ((name, value) <- skipping) out.writeNumberField(name, value)
    out.writeEndObject()
  }

  private def lake(out: JsonGenerator, counts: Map[String, Long]): Unit = {
    def count(counter: Counters.Counter): Long = counts.getOrElse(counter.name, 0L)
    def byKind(field: String)(value: Counters.Requests => Long): Unit = {
      out.writeObjectFieldStart(field)
      for (requests <- Counters.RequestsByKind) out.writeNumberField(requests.kind, value(requests))
      out.writeEndObject()
    }
    byKind("s3_requests")(requests => count(requests.sent))
    byKind("s3_request_us")(requests => count(requests.waitedUs))
    out.writeNumberField("s3_retries", count(Counters.RequestRetries))
    val reported =
      Counters.RequestsByKind.flatMap(requests => Seq(requests.sent, requests.waitedUs)) :+ Counters.RequestRetries
    out.writeObjectFieldStart("lake")
    for (counter <- Counters.All if !reported.contains(counter)) out.writeNumberField(counter.name, count(counter))
    out.writeEndObject()
  }

  private def json(fields: JsonGenerator => Unit): String = {
    val text = new StringWriter
    val out = factory.createGenerator(text)
    out.writeStartObject()
    fields(out)
    out.writeEndObject()
    out.close()
    text.toString
  }
}
