package io.penstock.fs.pool

import java.io.InputStream
import java.util.Optional
import java.util.concurrent.atomic.{AtomicInteger, AtomicLong}

import scala.annotation.tailrec

import org.apache.hadoop.conf.{Configurable, Configuration}
import org.apache.hadoop.fs.s3a.Constants.{DEFAULT_MAXIMUM_CONNECTIONS, MAXIMUM_CONNECTIONS}
import org.slf4j.LoggerFactory
import software.amazon.awssdk.core.exception.SdkClientException
import software.amazon.awssdk.core.interceptor.{Context, ExecutionAttribute, ExecutionAttributes, ExecutionInterceptor}
import software.amazon.awssdk.services.s3.model.GetObjectRequest

/**
 * Says who holds the connections when a pool has none left: `fs.s3a.audit.execution.interceptors=
 * io.penstock.fs.pool.PoolDoctor`.
 *
 * S3A makes one of these for each file system, and each file system has one pool. Every response of an object's content
 * is known from its first byte until its stream ends, is closed or aborted, whichever reader opened it: as long as that
 * it holds a connection, so there are never more of them than the pool has. When a request gets no connection in time,
 * the exception keeps its type and cause, so that S3A's retries are what they were, and its message is the diagnosis.
 */
class PoolDoctor extends ExecutionInterceptor with Configurable {
  import PoolDoctor._

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

private object PoolDoctor {

  private val log = LoggerFactory.getLogger(classOf[PoolDoctor])
  private val WarnAgainNs = 60L * 1000 * 1000 * 1000
  private val Attempted = new ExecutionAttribute[java.lang.Boolean]("io.penstock.fs.pool.Attempted")

  /** By its name: the HTTP client may be Apache's, or Apache's inside another jar. */
  @tailrec private def isPoolTimeout(problem: Throwable): Boolean =
    problem != null &&
      (problem.getClass.getName.endsWith(".ConnectionPoolTimeoutException") || isPoolTimeout(problem.getCause))
}
