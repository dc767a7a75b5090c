package io.penstock.fs

import software.amazon.awssdk.core.interceptor.{Context, ExecutionAttribute, ExecutionAttributes, ExecutionInterceptor}
import software.amazon.awssdk.http.SdkHttpRequest

/**
 * Counts the requests of every S3A client in this JVM into [[RequestCounts]]:
 * `fs.s3a.audit.execution.interceptors=io.penstock.fs.RequestCounter`.
 *
 * The SDK calls `beforeTransmission` once per attempt, right before the bytes leave.
 */
class RequestCounter extends ExecutionInterceptor {

  override def beforeTransmission(context: Context.BeforeTransmission, attributes: ExecutionAttributes): Unit = {
    RequestCounts.add(RequestCounter.kind(context.httpRequest))
    if (attributes.getAttribute(RequestCounter.Attempted) == null)
      attributes.putAttribute(RequestCounter.Attempted, java.lang.Boolean.TRUE)
    else RequestCounts.addRetry()
  }
}

object RequestCounter {

  private val Attempted = new ExecutionAttribute[java.lang.Boolean]("io.penstock.fs.Attempted")

  private[fs] def kind(request: SdkHttpRequest): String = {
    val method = request.method.name
    // Both listings carry their own mark, whatever the address style: version 2 its type, version 1 and uploads a limit.
    val parameters = request.rawQueryParameters
    val listing = parameters.containsKey("list-type") || parameters.containsKey("uploads") ||
      parameters.containsKey("max-keys") || parameters.containsKey("delimiter")
    if (method == "GET" && listing) "LIST" else method
  }
}
