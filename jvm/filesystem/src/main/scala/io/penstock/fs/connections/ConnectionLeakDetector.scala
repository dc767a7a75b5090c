package io.penstock.fs.connections

import java.io.{IOException, InputStream}
import java.util.Optional
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.{AtomicInteger, AtomicLong}

import scala.annotation.tailrec
import scala.jdk.CollectionConverters._
import scala.jdk.StreamConverters._

import org.apache.hadoop.conf.{Configurable, Configuration}
import org.apache.hadoop.fs.s3a.Constants.{DEFAULT_MAXIMUM_CONNECTIONS, MAXIMUM_CONNECTIONS}
import org.slf4j.LoggerFactory
import software.amazon.awssdk.core.exception.SdkClientException
import software.amazon.awssdk.core.interceptor.{Context, ExecutionAttribute, ExecutionAttributes, ExecutionInterceptor}
import software.amazon.awssdk.http.Abortable
import software.amazon.awssdk.services.s3.model.GetObjectRequest

import io.penstock.fs.metrics.Counters

/**
 * Says who holds the connections when a pool has none left: `fs.s3a.audit.execution.interceptors=
 * io.penstock.fs.connections.ConnectionLeakDetector`.
 *
 * S3A makes one of these for each file system, and each file system has one pool. Every response of an object's content
 * is known from its first byte until its stream ends, is closed or aborted, whichever reader opened it: as long as that
 * it holds a connection, so there are never more of them than the pool has. When a request gets no connection in time,
 * the exception keeps its type and cause, so that S3A's retries are what they were, and its message is the diagnosis.
 */
class ConnectionLeakDetector extends ExecutionInterceptor with Configurable {
  import ConnectionLeakDetector._

  private var conf: Configuration = _
  private var maximum = DEFAULT_MAXIMUM_CONNECTIONS
  private val open = new OpenResponses
  private val calls = new AtomicInteger
  private val warnedAt = new AtomicLong(System.nanoTime - WarnAgainNs)

  override def getConf: Configuration = conf

  override def setConf(conf: Configuration): Unit = {
    this.conf = conf
    maximum = conf.getInt(MAXIMUM_CONNECTIONS, DEFAULT_MAXIMUM_CONNECTIONS)
  }

  override def beforeExecution(context: Context.BeforeExecution, attributes: ExecutionAttributes): Unit =
    calls.incrementAndGet()

  override def afterExecution(context: Context.AfterExecution, attributes: ExecutionAttributes): Unit =
    calls.decrementAndGet()

  override def onExecutionFailure(context: Context.FailedExecution, attributes: ExecutionAttributes): Unit =
    calls.decrementAndGet()

  /** The SDK tells nobody why an attempt failed, and may try for minutes: a full pool is a good guess. */
  override def beforeTransmission(context: Context.BeforeTransmission, attributes: ExecutionAttributes): Unit =
    if (attributes.getAttribute(Attempted) == null) attributes.putAttribute(Attempted, java.lang.Boolean.TRUE)
    else if (open.size >= maximum) warn()

  override def modifyHttpResponseContent(
      context: Context.ModifyHttpResponse,
      attributes: ExecutionAttributes
  ): Optional[InputStream] =
    context.request match {
      case get: GetObjectRequest if context.responseBody.isPresent && context.httpResponse.isSuccessful =>
        // Where streams are opened is noted once they are many: before that nobody is short of connections.
        val noted = (open.size + 1) * 4 > maximum
        Optional.of(open.add(context.responseBody.get, s"s3a://${get.bucket}/${get.key}", noted))
      case _ => context.responseBody
    }

  override def modifyException(context: Context.FailedExecution, attributes: ExecutionAttributes): Throwable =
    context.exception match {
      case failed: SdkClientException if isPoolTimeout(failed) =>
        warn()
        val explained = SdkClientException.create(diagnosis(), failed.getCause)
        explained.setStackTrace(failed.getStackTrace)
        explained
      case other => other
    }

  private def diagnosis(): String = Diagnosis.of(maximum, open.all, calls.get, System.nanoTime)

  /** At most once a minute: each waiting task would say the same, and S3A's retries would repeat it. */
  private def warn(): Unit = {
    val now = System.nanoTime
    val last = warnedAt.get
    if (now - last >= WarnAgainNs && warnedAt.compareAndSet(last, now)) log.warn(diagnosis())
  }
}

private object ConnectionLeakDetector {

  private val log = LoggerFactory.getLogger(classOf[ConnectionLeakDetector])
  private val WarnAgainNs = 60L * 1000 * 1000 * 1000
  private val Attempted = new ExecutionAttribute[java.lang.Boolean]("io.penstock.fs.connections.Attempted")

  /** By its name: the HTTP client may be Apache's, or Apache's inside another jar. */
  @tailrec private def isPoolTimeout(problem: Throwable): Boolean =
    problem != null &&
      (problem.getClass.getName.endsWith(".ConnectionPoolTimeoutException") || isPoolTimeout(problem.getCause))
}

/** What is wrong with a pool that has no connection left, why, and how to fix it. Pure. */
private[connections] object Diagnosis {

  private val Shown = 10

  /**
   * @param calls
   *   requests that are on their way or wait for a connection, without those whose answer is being read
   * @param nowNs
   *   on the clock of the responses' `sinceNs`
   */
  def of(maximum: Int, open: Seq[OpenResponses.Held], calls: Int, nowNs: Long): String = {
    val demand = open.size + calls
    val oldest = open.sortBy(_.sinceNs - nowNs)
    val listed = oldest.take(Shown).map(response => s"\n  ${line(response, nowNs)}").mkString
    val more = if (open.size > Shown) s"\n  … and ${open.size - Shown} more, opened later" else ""
    val holders = if (open.isEmpty) "" else s"\nOpen streams, oldest first, each with its connection:$listed$more"
    s"No connection to the store was free in time: the pool has $maximum ($MAXIMUM_CONNECTIONS), " +
      s"${open.size} are held by open streams, and $calls requests are on their way or wait.$holders\n${fix(maximum, open.size, demand)}"
  }

  private def fix(maximum: Int, open: Int, demand: Int): String = {
    val larger = s"set $MAXIMUM_CONNECTIONS to ${demand.max(maximum) * 2} or more"
    if (open * 2 > maximum)
      s"Close each stream after use, also after an error; if all of these are needed at once, $larger."
    else s"More requests are made at once than there are connections: $larger, or lower fs.s3a.threads.max."
  }

  private def line(response: OpenResponses.Held, nowNs: Long): String = {
    val place = if (response.place.isEmpty) "" else response.place.mkString(" at ", " < ", "")
    f"${response.path} for ${(nowNs - response.sinceNs) / 1e9}%.1f s by thread “${response.thread}”$place"
  }
}

/**
 * The responses whose connection has not gone back to the pool. Never holds the streams themselves, only who they are.
 */
private[connections] class OpenResponses {

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

private[connections] object OpenResponses {

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
