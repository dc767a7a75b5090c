package io.penstock.fs.gateways

import java.io.{FilterInputStream, IOException, InputStream}
import java.util.Optional

import scala.annotation.nowarn

import software.amazon.awssdk.core.interceptor.{Context, ExecutionAttributes, ExecutionInterceptor}
import software.amazon.awssdk.core.retry.RetryPolicyContext
import software.amazon.awssdk.core.retry.conditions.RetryCondition
import software.amazon.awssdk.http.Abortable

/** Tells the pool how each attempt fared; a response counts as in flight until its body is closed. */
private[gateways] object GatewayObserver extends ExecutionInterceptor {

  override def afterTransmission(context: Context.AfterTransmission, attributes: ExecutionAttributes): Unit =
    GatewayCall.current(attributes).foreach { attempt =>
      Failures.of(context.httpResponse) match {
        case Some(failure) => attempt.failed(failure)
        case None => attempt.answered()
      }
    }

  override def modifyHttpResponseContent(
      context: Context.ModifyHttpResponse,
      attributes: ExecutionAttributes
  ): Optional[InputStream] = {
    val body = context.responseBody
    GatewayCall.current(attributes).filter(_.open && body.isPresent).fold(body) { attempt =>
      GatewayCall.of(attributes).streams = true
      Optional.of(new ObservedBody(body.get, attempt))
    }
  }

  override def afterExecution(context: Context.AfterExecution, attributes: ExecutionAttributes): Unit = {
    val call = GatewayCall.of(attributes)
    if (!call.streams) call.current.foreach(_.finished(0))
  }

  override def onExecutionFailure(context: Context.FailedExecution, attributes: ExecutionAttributes): Unit =
    GatewayCall.gaveUp(attributes, context.exception)
}

/** Decides as the client's own condition does; in passing it sees why an attempt without a response failed. */
@nowarn("cat=deprecation") // As long as S3A configures a RetryPolicy.
final private[gateways] class ObservedRetries(condition: RetryCondition) extends RetryCondition {

  override def shouldRetry(context: RetryPolicyContext): Boolean = {
    GatewayCall.gaveUp(context.executionAttributes, context.exception)
    condition.shouldRetry(context)
  }

  override def requestWillNotBeRetried(context: RetryPolicyContext): Unit = condition.requestWillNotBeRetried(context)

  override def requestSucceeded(context: RetryPolicyContext): Unit = condition.requestSucceeded(context)
}

/** A response's body, which keeps its attempt in flight until its end, its closing or its abortion. */
final private class ObservedBody(body: InputStream, attempt: Gateways.InFlight)
    extends FilterInputStream(body)
    with Abortable {
  private var bytes = 0L

  override def read(): Int = {
    val byte = observed(super.read())
    if (byte < 0) attempt.finished(bytes) else bytes += 1
    byte
  }

  override def read(buffer: Array[Byte], offset: Int, length: Int): Int = {
    val count = observed(super.read(buffer, offset, length))
    if (count < 0) attempt.finished(bytes) else bytes += count
    count
  }

  override def skip(count: Long): Long = {
    val skipped = observed(super.skip(count))
    bytes += skipped
    skipped
  }

  override def close(): Unit =
    try super.close()
    finally attempt.finished(bytes)

  override def abort(): Unit =
    try
      body match {
        case abortable: Abortable => abortable.abort()
        case _ => ()
      }
    finally attempt.finished(bytes)

  private def observed[A](work: => A): A =
    try work
    catch {
      case error: IOException =>
        Failures.of(error) match {
          case Some(failure) => attempt.failed(failure)
          case None => attempt.finished(bytes)
        }
        throw error
    }
}
