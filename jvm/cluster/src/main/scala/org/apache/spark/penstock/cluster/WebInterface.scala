package org.apache.spark.penstock.cluster

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, NoSuchFileException, Path, Paths}
import java.util.concurrent.{ScheduledThreadPoolExecutor, TimeUnit}
import java.util.{Collections, Map => JavaMap}

import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}
import org.apache.spark.internal.config.UI.UI_FILTERS
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.ui.SQLTab
import org.apache.spark.ui.SparkUI
import org.slf4j.LoggerFactory

import io.penstock.cluster.protocol.{Endpoint, KeyFilter}

/**
 * Opens Spark's pages of a driver that was started without them, at the first request for them.
 *
 * Few applications are ever looked at, and a web server costs each of them time at its start. Spark records the pages'
 * content in any case, so pages that open late lack nothing of the past, except for those of structured streaming,
 * whose listener must be there from the beginning.
 *
 * A request is a key in the file `ui.wanted` of `directory`. The pages answer only HTTP requests with that key, since
 * every account of the machine can reach their port. `opened` gets their address, once.
 */
private[spark] class WebInterface(
    context: SparkContext,
    applicationId: String,
    directory: Path,
    opened: String => Unit
) extends AutoCloseable {
  import WebInterface._

  private var pages: Option[SparkUI] = None
  private var closed = false

  private val timer = new ScheduledThreadPoolExecutor(
    1,
    { (work: Runnable) =>
      val thread = new Thread(work, "penstock-web-interface")
      thread.setDaemon(true)
      thread
    }
  )
  timer.scheduleWithFixedDelay(() => look(), IntervalMs, IntervalMs, TimeUnit.MILLISECONDS)

  /** Close the pages for good. */
  override def close(): Unit = {
    timer.shutdown()
    synchronized {
      closed = true
      pages.foreach(_.stop())
    }
  }

  private def look(): Unit = synchronized {
    if (!closed)
      try {
        if (pages.isEmpty) wanted().foreach(open)
        // A session may come later than the first look, as in a shell.
        for (ui <- pages; session <- SparkSession.getDefaultSession) {
          new SQLTab(session.sharedState.statusStore, ui)
          timer.shutdown()
        }
      } catch {
        case NonFatal(problem) =>
          timer.shutdown()
          log.warn("The application goes on, but its web interface is not complete", problem)
      }
  }

  private def open(key: String): Unit = {
    val conf = context.conf.clone
      .set(UI_FILTERS, context.conf.get(UI_FILTERS) :+ classOf[KeyFilter].getName)
      .set(s"spark.${classOf[KeyFilter].getName}.param.${KeyFilter.Parameter}", key)
    val security = context.env.securityManager
    val ui = SparkUI.create(Some(context), context.statusStore, conf, security, context.appName, "", context.startTime)
    ui.setAppId(applicationId)
    // `bind` ends the process where it fails, so the server is started once before.
    ui.initServer().stop()
    ui.bind()
    pages = Some(ui)
    ui.attachAllHandlers()
    opened(ui.webUrl)
  }

  private def wanted(): Option[String] =
    try Some(new String(Files.readAllBytes(directory.resolve(FileName)), UTF_8).trim)
    catch { case _: NoSuchFileException => None }
}

private[spark] object WebInterface {
  val FileName = "ui.wanted"

  private val IntervalMs = 200L
  private val log = LoggerFactory.getLogger(classOf[WebInterface])
}

/**
 * Publishes the endpoint, and opens Spark's pages on request, of a driver whose executors another scheduler starts;
 * `LocalSchedulerBackend` does both for its own.
 */
class PagesPlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = new PagesPlugin.Driver
  override def executorPlugin(): ExecutorPlugin = null
}

private object PagesPlugin {

  final class Driver extends DriverPlugin {

    private var context: SparkContext = _
    private var directory: Path = _
    private var pages: Option[WebInterface] = None

    override def init(context: SparkContext, plugin: PluginContext): JavaMap[String, String] = {
      this.context = context
      directory = Paths.get(context.conf.get("spark.penstock.directory"))
      Collections.emptyMap
    }

    /** Called when the context is complete but for its listeners, and the application's id is known. */
    override def registerMetrics(applicationId: String, plugin: PluginContext): Unit = {
      def publish(url: String): Unit =
        Endpoint(LocalClusterManager.driverUrl(context.conf), applicationId, url).publish(directory)
      publish(context.uiWebUrl.getOrElse(""))
      if (context.ui.isEmpty) pages = Some(new WebInterface(context, applicationId, directory, publish))
    }

    override def shutdown(): Unit = {
      pages.foreach(_.close())
      Endpoint.withdraw(directory)
    }

  }
}
