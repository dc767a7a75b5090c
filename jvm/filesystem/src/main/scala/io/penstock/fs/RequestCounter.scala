package io.penstock.fs

import software.amazon.awssdk.core.interceptor.{Context, ExecutionAttribute, ExecutionAttributes, ExecutionInterceptor}
import software.amazon.awssdk.http.SdkHttpRequest

/**
 * Counts the requests of every S3A client in this JVM, and how long each was waited for, into [[Counters]]:
 * `fs.s3a.audit.execution.interceptors=io.penstock.fs.RequestCounter`.
 *
 * The SDK calls `beforeTransmission` once per attempt, right before it asks for a connection, and `afterTransmission`
 * when the head of an answer is there: an attempt that is never answered has no time.
 */
class RequestCounter private[fs] (nanoTime: () => Long) extends ExecutionInterceptor {
  import RequestCounter._

  def this() = this(() => System.nanoTime())

  override def beforeTransmission(context: Context.BeforeTransmission, attributes: ExecutionAttributes): Unit = {
    val request = context.httpRequest
    requestsLike(request).foreach(_.sent.increment())
    if (attributes.getAttribute(SentAt) != null) Counters.RequestRetries.increment()
    val body = request.firstMatchingHeader("Content-Length")
    if (body.isPresent) body.get.toLongOption.foreach(Counters.BytesSent.add)
    attributes.putAttribute(SentAt, Long.box(nanoTime()))
  }

  override def afterTransmission(context: Context.AfterTransmission, attributes: ExecutionAttributes): Unit = {
    val sentAt = attributes.getAttribute(SentAt)
    if (sentAt != null) answered(context.httpRequest, nanoTime() - sentAt)
    val status = context.httpResponse.statusCode
    if (status == 429 || status == 503) Counters.AnswersThrottled.increment()
    else if (status >= 500) Counters.AnswersFailed.increment()
  }
}

object RequestCounter {

  private val SentAt = new ExecutionAttribute[java.lang.Long]("io.penstock.fs.SentAt")

  private val ByKind = Counters.RequestsByKind.map(requests => requests.kind -> requests).toMap

  private def requestsLike(request: SdkHttpRequest): Option[Counters.Requests] = {
    val method = request.method.name
    ByKind.get(if (method == "GET" && isListing(request)) "LIST" else method)
  }

  /**
   * Both listings carry their own mark, whatever the address style: version 2 its type, version 1 and uploads a limit.
   */
  private def isListing(request: SdkHttpRequest): Boolean = {
    val parameters = request.rawQueryParameters
    parameters.containsKey("list-type") || parameters.containsKey("uploads") ||
    parameters.containsKey("max-keys") || parameters.containsKey("delimiter")
  }

  private def answered(request: SdkHttpRequest, nanoseconds: Long): Unit = {
    requestsLike(request).foreach(_.waitedUs.add(nanoseconds / 1000))
    val classes = Counters.AnsweredWithinMs
    var i = 0
    while (i < classes.size && nanoseconds > classes(i)._1 * 1000000) i += 1
    (if (i < classes.size) classes(i)._2 else Counters.AnsweredLater).increment()
  }
}
