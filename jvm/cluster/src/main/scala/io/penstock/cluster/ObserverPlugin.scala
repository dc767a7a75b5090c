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

import io.penstock.fs.RequestCounts

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

  /** Cumulative, so that a lost or repeated message does no harm. */
  final case class ExecutorRequests(executorId: String, reading: RequestCounts.Reading)

  final class Driver extends DriverPlugin {

    private val requests = new ConcurrentHashMap[String, RequestCounts.Reading]
    @volatile private var writer: Option[Writer] = None

    override def init(context: SparkContext, plugin: PluginContext): JavaMap[String, String] = {
      writer = Option(context.getConf.get("spark.penstock.directory", null))
        .map(directory => new Writer(Paths.get(directory), () => total()))
      writer.foreach(context.addSparkListener)
      java.util.Collections.emptyMap
    }

    override def receive(message: AnyRef): AnyRef = {
      message match {
        case ExecutorRequests(executor, reading) => requests.put(executor, reading)
        case _ =>
      }
      null
    }

    override def shutdown(): Unit = writer.foreach(_.finish())

    private def total(): RequestCounts.Reading = requests.values.asScala.foldLeft(RequestCounts.now())(_ + _)
  }

  /** Folds the events on the listener's thread and writes on its own: the bus never waits for a disk. */
  final private class Writer(directory: Path, requests: () => RequestCounts.Reading) extends SparkFirehoseListener {

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
      quietly(AtomicFile.replace(directory.resolve("summary.json"), Reports.summary(seen.get, requests(), now())))
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
    private val sent = new AtomicReference(RequestCounts.Reading.Zero)

    override def init(context: PluginContext, extraConf: JavaMap[String, String]): Unit = this.context = context
    override def onTaskSucceeded(): Unit = report()
    override def onTaskFailed(reason: TaskFailedReason): Unit = report()

    private def report(): Unit =
      try {
        val reading = RequestCounts.now()
        if (sent.getAndSet(reading) != reading) context.send(ExecutorRequests(context.executorID, reading))
      } catch { case NonFatal(problem) => log.debug("Request counts not sent", problem) }
  }
}
