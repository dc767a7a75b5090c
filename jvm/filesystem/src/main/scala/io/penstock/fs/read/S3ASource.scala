package io.penstock.fs.read

import java.time.format.{DateTimeFormatter, DateTimeParseException}
import java.time.{Instant, ZonedDateTime}

import scala.jdk.OptionConverters._

import org.apache.hadoop.fs.s3a.impl.ChangeDetectionPolicy.{Mode, Source}
import org.apache.hadoop.fs.s3a.impl.streams.ObjectReadParameters
import org.apache.hadoop.fs.s3a.{Invoker, RemoteFileChangedException, S3AReadOpContext, S3AUtils}
import software.amazon.awssdk.core.ResponseInputStream
import software.amazon.awssdk.services.s3.model.GetObjectResponse

import io.penstock.fs.{Counters, EntityTag}

/** An object as S3A's own streams see it: their callbacks, retries, change detection, and statistics. */
final private[read] class S3ASource(parameters: ObjectReadParameters) extends ObjectSource {

  private val attributes = parameters.getObjectAttributes
  private val statistics = parameters.getStreamStatistics
  private val context: S3AReadOpContext = parameters.getContext
  private val invoker: Invoker = context.getReadInvoker
  private val uri = s"s3a://${attributes.getBucket}/${attributes.getKey}"

  override def get(from: Long, until: Long, etag: Option[String]): RangeResponse = {
    val request = parameters.getCallbacks.newGetRequestBuilder(attributes.getKey)
    request.range(S3AUtils.formatRange(from, until - 1))
    val policy = context.getChangeDetectionPolicy
    if (policy.getMode == Mode.Server)
      policy.getSource match {
        case Source.VersionId =>
          Option(attributes.getVersionId).foreach(policy.applyRevisionConstraint(request, _))
        case _ => etag.foreach(tag => request.ifMatch(s"\"$tag\""))
      }
    statistics.streamOpened()
    val action = s"read $uri from $from"
    val stream = Invoker.onceTrackingDuration(
      action,
      uri,
      statistics.initiateGetRequest(),
      () => parameters.getCallbacks.getObject(request.build())
    )
    val response = new S3ASource.Response(stream, until - from, context.getReadahead, statistics.streamClose(_, _))
    if (etag.exists(tag => !response.version.etag.contains(tag))) {
      response.close()
      changed(action, etag, response.version.etag)
    }
    response
  }

  private def changed(action: String, expected: Option[String], found: Option[String]): Nothing = {
    statistics.getChangeTrackerStatistics.versionMismatchError()
    throw new RemoteFileChangedException(
      uri,
      action,
      s"the object was overwritten while it was read: its entity tag was ${expected.mkString}, now it is " +
        s"${found.getOrElse("missing")}; open it again to read the new version"
    )
  }

  override def retrying[T](action: String)(work: => T): T =
    invoker.retry(s"$action $uri", attributes.getPath.toString, true, () => work)

  override def broke(): Unit = {
    statistics.readException()
    Counters.FetchesResumed.increment()
  }
}

private object S3ASource {

  final private class Response(
      stream: ResponseInputStream[GetObjectResponse],
      length: Long,
      worthReadingOver: Long,
      closed: (Boolean, Long) => Unit
  ) extends RangeResponse {

    private var left = length

    override val version: Version = {
      val response = stream.response
      val http = Option(response.sdkHttpResponse)
      Version(
        EntityTag.strong(response.eTag),
        Option(response.contentRange).flatMap(totalOf).getOrElse(response.contentLength),
        Option(response.lastModified).fold(0L)(_.getEpochSecond),
        http.flatMap(_.firstMatchingHeader("Date").toScala).flatMap(secondsOf).getOrElse(Instant.now.getEpochSecond)
      )
    }

    override def read(into: Array[Byte], offset: Int, length: Int): Int = {
      val n = stream.read(into, offset, length)
      if (n > 0) left -= n
      n
    }

    override def close(): Unit = {
      val abort = left > worthReadingOver
      if (abort) stream.abort() else stream.close()
      closed(abort, left)
    }
  }

  /** Of `bytes 0-9/123`. */
  private def totalOf(contentRange: String): Option[Long] =
    contentRange.substring(contentRange.lastIndexOf('/') + 1).toLongOption

  private def secondsOf(date: String): Option[Long] =
    try Some(ZonedDateTime.parse(date, DateTimeFormatter.RFC_1123_DATE_TIME).toEpochSecond)
    catch { case _: DateTimeParseException => None }
}
