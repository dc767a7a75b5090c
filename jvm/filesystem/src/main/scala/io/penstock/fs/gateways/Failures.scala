package io.penstock.fs.gateways

import java.io.{IOException, InterruptedIOException}
import java.net.{SocketException, SocketTimeoutException, UnknownHostException}
import java.util.concurrent.CancellationException
import java.util.concurrent.TimeUnit.SECONDS
import javax.net.ssl.SSLException

import software.amazon.awssdk.core.exception.{
  AbortedException,
  ApiCallAttemptTimeoutException,
  ApiCallTimeoutException,
  SdkServiceException
}
import software.amazon.awssdk.http.SdkHttpResponse

/** What responses and exceptions say about the gateway they came from. */
private[gateways] object Failures {

  /** None: the gateway did its work, whatever the store thinks of the request. */
  def of(response: SdkHttpResponse): Option[Failure] = response.statusCode match {
    case 503 | 429 =>
      val seconds = response.firstMatchingHeader("Retry-After").map[Option[Long]](_.toLongOption).orElse(None)
      Some(Failure.Overloaded(seconds.map(SECONDS.toNanos)))
    // What a server does not implement is no failure of it.
    case status if status >= 500 && status != 501 => Some(Failure.Broken)
    case _ => None
  }

  /** None: it was this side that gave up, or an answer that [[of(response*]] has judged already. */
  def of(error: Throwable): Option[Failure] =
    Iterator
      .iterate(error)(_.getCause)
      .takeWhile(_ != null)
      .take(Deepest)
      .map(judge)
      .collectFirst { case Some(verdict) =>
        verdict
      }
      .flatten

  private val Deepest = 16

  /**
   * None: look at the cause. Some(None): no failure of the gateway. By name where the HTTP client may be another one.
   */
  private def judge(error: Throwable): Option[Option[Failure]] = error match {
    case _: SdkServiceException | _: AbortedException | _: InterruptedException | _: CancellationException => Some(None)
    case _: ApiCallAttemptTimeoutException | _: ApiCallTimeoutException => Some(Some(Failure.Broken))
    case _ if error.getClass.getSimpleName == "ConnectionPoolTimeoutException" => Some(None)
    case _ if error.getClass.getSimpleName == "ConnectTimeoutException" => Some(Some(Failure.Unreachable))
    case _: SocketException | _: UnknownHostException | _: SSLException => Some(Some(Failure.Unreachable))
    case _: SocketTimeoutException => Some(Some(Failure.Broken))
    case _: InterruptedIOException => Some(None)
    case _: IOException => if (error.getCause == null) Some(Some(Failure.Broken)) else None
    case _ => None
  }
}
