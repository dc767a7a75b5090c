package org.apache.spark.penstock

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, NoSuchFileException, Path}
import java.util.concurrent.{ScheduledThreadPoolExecutor, TimeUnit}

import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.internal.config.UI.UI_FILTERS
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.ui.SQLTab
import org.apache.spark.ui.SparkUI
import org.slf4j.LoggerFactory

import io.penstock.cluster.KeyFilter

/**
 * Opens Spark's pages of a driver that was started without them, once somebody wants to look.
 *
 * Few applications are ever looked at, and a web server costs each of them at its start. What the pages show is kept by
 * Spark in any case, so pages that are opened late lack nothing of the past; only those of structured streaming have a
 * listener of their own that has to be there from the beginning.
 *
 * Whoever wants to look puts a key into the file `ui.wanted` of `directory`. The pages answer requests that bring it,
 * and no others: every account of the machine can reach their port. `opened` is told their address, once.
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

  /** The pages are gone when it returns, and do not come back. */
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
    // Where `bind` fails it ends the process, so what it does is tried before.
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
