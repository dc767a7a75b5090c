package io.penstock.cluster

import java.nio.file.{Path, Paths}
import java.util.concurrent.atomic.AtomicReference
import java.util.concurrent.{ConcurrentHashMap, ScheduledThreadPoolExecutor, TimeUnit}
import java.util.{Map => JavaMap}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}
import org.apache.spark.scheduler.{SparkListenerApplicationEnd, SparkListenerEvent}
import org.apache.spark.{SparkContext, SparkFirehoseListener, TaskFailedReason}
import org.slf4j.LoggerFactory

import io.penstock.fs.Counters
import io.penstock.skipping.SkippingCounters

/**
 * Lets others watch an application without asking its driver: `spark.plugins=io.penstock.cluster.ObserverPlugin`.
 *
 * Writes `progress.json` (at most four times a second) and `summary.json` (at the end) into `spark.penstock.directory`.
 * Observing never fails the application: what goes wrong is logged once and the files stay as they are.
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

    private val seen = new AtomicReference(Observed())
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
