package io.penstock.fs.scan

import java.io.{FileNotFoundException, InterruptedIOException}
import java.net.URI
import java.util.{Map => JavaMap}

import scala.util.Try
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}
import org.apache.spark.{ExceptionFailure, SparkConf, SparkThrowable, TaskFailedReason}
import org.slf4j.LoggerFactory

import io.penstock.fs.PenstockFileSystem

/**
 * Has this machine forget what it keeps of a file that a task could not make sense of:
 * `spark.plugins=io.penstock.fs.scan.DamagedFilePlugin`.
 *
 * The bytes may have been damaged on their way, since S3 has no check sum for a range; and then the cache would give
 * them to every later attempt. Spark names the file when a reader of any format fails, and when a footer cannot be read
 * of which a schema is inferred. So the next attempt of the task reads the store's.
 */
final class DamagedFilePlugin extends SparkPlugin {

  override def driverPlugin(): DriverPlugin = null

  override def executorPlugin(): ExecutorPlugin = new ExecutorPlugin {

    private var spark: SparkConf = _

    // The one that Spark's readers use is not for plug-ins; by these the same file system is found. Made late: it takes
    // some time, and most executors never need it.
    private lazy val conf = {
      val made = new Configuration
      spark.getAllWithPrefix("spark.hadoop.").foreach { case (name, value) => made.set(name, value) }
      made
    }

    override def init(context: PluginContext, settings: JavaMap[String, String]): Unit = spark = context.conf

    override def onTaskFailed(reason: TaskFailedReason): Unit = reason match {
      case failure: ExceptionFailure =>
        failure.exception.toSeq.flatMap(DamagedFilePlugin.namedIn).foreach(DamagedFilePlugin.forget(_, conf))
      case _ => ()
    }
  }
}

private[scan] object DamagedFilePlugin {

  private val log = LoggerFactory.getLogger(classOf[DamagedFilePlugin])

  private val Conditions = Set("FAILED_READ_FILE.NO_HINT", "FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER")

  /** More causes than any failure has. */
  private val MostCauses = 50

  /**
   * The file whose bytes the failure speaks against, if any, by each name that Spark may mean: it tells the URL of a
   * file that it scans, but the path of one whose footer it reads.
   */
  def namedIn(failure: Throwable): Seq[Path] =
    Iterator
      .iterate(failure)(_.getCause)
      .takeWhile(_ != null)
      .take(MostCauses)
      .collectFirst {
        case unread: SparkThrowable if Conditions(unread.getCondition) && speaksAgainstTheBytes(unread) =>
          Option(unread.getMessageParameters.get("path"))
      }
      .flatten
      .toSeq
      .flatMap(name => Seq(Try(new Path(new URI(name))), Try(new Path(name))).flatMap(_.toOption).distinct)

  /** Readers fail over wrong bytes in many ways: what is left out here is known to have other reasons. */
  private def speaksAgainstTheBytes(unread: SparkThrowable): Boolean = unread match {
    case failure: Throwable =>
      failure.getCause match {
        case _: InterruptedIOException | _: FileNotFoundException => false
        case _ => true
      }
    case _ => false
  }

  private def forget(path: Path, conf: Configuration): Unit =
    try
      path.getFileSystem(conf) match {
        case ours: PenstockFileSystem =>
          ours.forget(path)
          log.warn("{} could not be read: what the page cache had of it has been dropped", path)
        case _ => ()
      }
    catch {
      // The other of its two names.
      case _: FileNotFoundException => ()
      case NonFatal(failure) => log.warn(s"$path could not be read, nor dropped from the page cache", failure)
    }
}
