package io.penstock.fs.pool

import java.io.{IOException, InputStream}
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._
import scala.jdk.StreamConverters._

import software.amazon.awssdk.http.Abortable

import io.penstock.fs.Counters

/**
 * The responses whose connection has not gone back to the pool. Never holds the streams themselves, only who they are.
 */
private[pool] class OpenResponses {

  private val known = ConcurrentHashMap.newKeySet[OpenResponses.Held]

  def size: Int = known.size

  def all: Seq[OpenResponses.Held] = known.asScala.toVector

  /**
   * The response's body, to be read in place of `body`; as that, it can be aborted where the HTTP client's can.
   *
   * @param noted
   *   whether to look where in the program it was opened
   */
  def add(body: InputStream, path: String, noted: Boolean): InputStream = {
    val thread = Thread.currentThread.getName
    val held = new OpenResponses.Held(path, System.nanoTime, thread, if (noted) OpenResponses.place() else Nil)
    known.add(held)
    new OpenResponses.Body(body, () => known.remove(held))
  }
}

private[pool] object OpenResponses {

  /**
   * One open response.
   *
   * @param sinceNs
   *   on the clock of `System.nanoTime`
   * @param place
   *   the innermost calls that are not S3A's or the SDK's, innermost first; empty where nobody looked
   */
  final class Held(val path: String, val sinceNs: Long, val thread: String, val place: Seq[String])

  /** Counts what is read, and says once when the HTTP client has taken the connection back, for whatever reason. */
  final private class Body(body: InputStream, done: () => Unit) extends InputStream with Abortable {

    private var uncounted = 0L

    override def read(): Int = {
      val byte = taken(body.read())
      count(if (byte < 0) -1 else 1)
      byte
    }

    override def read(into: Array[Byte], offset: Int, length: Int): Int = {
      val got = taken(body.read(into, offset, length))
      count(got)
      got
    }

    override def skip(bytes: Long): Long = {
      val skipped = body.skip(bytes)
      count(skipped)
      skipped
    }

    override def available(): Int = body.available()

    override def close(): Unit =
      try body.close()
      finally ended()

    override def abort(): Unit =
      try
        body match {
          case abortable: Abortable => abortable.abort()
          case _ => body.close()
        }
      finally ended()

    /** The client gives up the connection of a stream that fails. */
    private def taken(read: => Int): Int =
      try read
      catch {
        case failure: IOException =>
          ended()
          throw failure
      }

    private def count(bytes: Long): Unit =
      if (bytes < 0) ended()
      else {
        uncounted += bytes
        if (uncounted >= (1 << 16)) settle()
      }

    private def ended(): Unit = {
      settle()
      done()
    }

    private def settle(): Unit = {
      Counters.BytesReceived.add(uncounted)
      uncounted = 0
    }
  }

  private val Plumbing = Seq(
    "software.amazon.awssdk.",
    "org.apache.hadoop.fs.",
    "org.apache.hadoop.util.",
    "java.",
    "jdk.",
    "scala.",
    "io.penstock.fs."
  )

  private def place(): Seq[String] =
    StackWalker.getInstance.walk { frames =>
      frames
        .filter(frame => !Plumbing.exists(frame.getClassName.startsWith))
        .limit(3)
        .map[String](_.toStackTraceElement.toString)
        .toScala(Vector)
    }
}
