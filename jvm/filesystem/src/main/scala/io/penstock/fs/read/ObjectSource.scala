package io.penstock.fs.read

import java.io.{Closeable, EOFException, IOException, InterruptedIOException}
import java.security.MessageDigest
import java.time.format.{DateTimeFormatter, DateTimeParseException}
import java.time.{Instant, ZonedDateTime}
import java.util
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.OptionConverters._
import scala.util.control.NonFatal

import org.apache.commons.codec.binary.Hex
import org.apache.hadoop.fs.InvalidRequestException
import org.apache.hadoop.fs.s3a.impl.ChangeDetectionPolicy.{Mode, Source}
import org.apache.hadoop.fs.s3a.impl.streams.ObjectReadParameters
import org.apache.hadoop.fs.s3a.{Invoker, RemoteFileChangedException, S3AReadOpContext, S3AUtils}
import software.amazon.awssdk.core.ResponseInputStream
import software.amazon.awssdk.services.s3.model.GetObjectResponse

import io.penstock.fs.cache.PageCache
import io.penstock.fs.metrics.Counters
import io.penstock.fs.store.EntityTag

/**
 * What the store said about an object with a response.
 *
 * @param etag
 *   without quotes; none from a store that has none
 * @param length
 *   of the whole object, in bytes
 * @param modified
 *   in seconds since 1970
 * @param answered
 *   the store's clock, in seconds since 1970
 */
final private[read] case class Version(etag: Option[String], length: Long, modified: Long, answered: Long)

/** One object in a store, seen through requests for ranges of it. */
private[read] trait ObjectSource {

  /**
   * Sends one request for the bytes from `from` to `until` (exclusive).
   *
   * @param etag
   *   the version it must be; the store is asked to refuse any other, and a response that carries another is refused
   *   here
   * @throws org.apache.hadoop.fs.s3a.RemoteFileChangedException
   *   it is another version now
   * @throws org.apache.hadoop.fs.InvalidRequestException
   *   the response does not begin at `from`; asking again would not help
   */
  def get(from: Long, until: Long, etag: Option[String]): RangeResponse

  /**
   * Does `work` again after a failure that S3A's policy for reads calls worth it, as often and as slowly as it says.
   */
  def retrying[T](action: String)(work: => T): T

  /** A read broke off; for the statistics. */
  def broke(): Unit
}

/** The answer to one request; it holds a connection until it is closed. */
private[read] trait RangeResponse extends Closeable {
  def version: Version

  /** As `InputStream.read`. */
  def read(into: Array[Byte], offset: Int, length: Int): Int

  /** Gives the connection back, or drops it if what is left of the response is too long to read over. */
  override def close(): Unit
}

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
    if (!S3ASource.startsAt(from, stream.response)) {
      // What follows may be the whole object: nobody reads over it to keep the connection.
      stream.abort()
      statistics.streamClose(true, until - from)
      misplaced(action, from, stream.response)
    }
    val response = new S3ASource.Response(stream, until - from, context.getReadahead, statistics.streamClose(_, _))
    if (etag.exists(tag => !response.version.etag.contains(tag))) {
      response.close()
      changed(action, etag, response.version.etag)
    }
    response
  }

  private def misplaced(action: String, from: Long, response: GetObjectResponse): Nothing =
    throw new InvalidRequestException(
      s"$action: the store was asked for the bytes from $from on and answered with " +
        Option(response.contentRange).fold("the object from its beginning")(range => s"\"$range\"") +
        "; the store, or a proxy before it, does not understand the Range header, without which no part of an object " +
        "can be read"
    )

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

  /** Whether the body begins with that byte of the object: only a part's `Content-Range` says so of another than 0. */
  private def startsAt(from: Long, response: GetObjectResponse): Boolean =
    Option(response.contentRange) match {
      case Some(range) => range.startsWith(s"bytes $from-")
      case None => from == 0 && Option(response.sdkHttpResponse).forall(_.statusCode == 200)
    }

  /** Of `bytes 0-9/123`. */
  private def totalOf(contentRange: String): Option[Long] =
    contentRange.substring(contentRange.lastIndexOf('/') + 1).toLongOption

  private def secondsOf(date: String): Option[Long] =
    try Some(ZonedDateTime.parse(date, DateTimeFormatter.RFC_1123_DATE_TIME).toEpochSecond)
    catch { case _: DateTimeParseException => None }
}

/**
 * The bytes of one range, front to back. A response that breaks off in the middle is asked for again from there, as
 * often as the source's retries allow without a page's progress; it is never a mixture of two versions. A small object
 * that comes whole is compared with its entity tag, by `tags`: piece by piece, while the store sends the next.
 *
 * @param stopped
 *   asked between two reads: whether nobody wants the bytes any more
 * @param cache
 *   notes how long the store took for what
 */
final private[read] class ResumingDownload(
    source: ObjectSource,
    from: Long,
    until: Long,
    expected: Option[String],
    stopped: () => Boolean,
    tags: EtagVerifier,
    cache: PageCache
) extends Closeable {

  import ResumingDownload._

  private var position = from
  private var etag = expected
  private var response: RangeResponse = _
  private var end = until
  private var whole = Long.MaxValue

  /** Of the object's bytes so far; none where there is nothing to compare them with. */
  private var check = Option.empty[EtagCheck]

  /** Sends the request, unless it is on its way already, and waits for the head of its response. */
  def open(): Version = {
    val began = System.nanoTime
    try source.retrying("open")(attempt())
    finally cache.answered(System.nanoTime - began)
  }

  private def attempt(): Version = {
    if (response == null) {
      response = source.get(position, until, etag)
      val version = response.version
      if (etag.isEmpty) etag = version.etag
      // Whoever gave us the length may know another version than the store, which had no reason to refuse.
      end = math.min(until, version.length)
      whole = version.length
    }
    response.version
  }

  /**
   * Fills `into` from `offset` with the next `length` bytes.
   *
   * @return
   *   how many there were: fewer only if the object ends before the range does
   */
  def read(into: Array[Byte], offset: Int, length: Int): Int = {
    val start = position
    val began = System.nanoTime
    val filled = fill(start, into, offset, length)
    cache.fetched(filled.toLong, System.nanoTime - began - check.fold(0L)(_.took))
    if (!agrees) askAgain(into, offset, filled)
    filled
  }

  /** Whether nothing speaks against the bytes that have come. */
  private def agrees: Boolean = {
    val agreed = check.forall(_.agrees)
    check = None
    agreed
  }

  /** Until the tag agrees, or the same bytes come twice. */
  private def askAgain(into: Array[Byte], offset: Int, length: Int): Unit = {
    var left = Comparisons
    var settled = false
    while (!settled) {
      val before = util.Arrays.copyOfRange(into, offset, offset + length)
      source.broke()
      close()
      position = 0
      fill(0, into, offset, length)
      val same = util.Arrays.equals(before, 0, length, into, offset, offset + length)
      if (same) tags.misleading()
      settled = agrees || same
      left -= 1
      if (!settled && left == 0)
        throw new IOException(
          s"$length bytes of an object arrived differently ${Comparisons + 1} times, and never as its entity tag " +
            s"${etag.mkString} says: something between here and the store damages them; TLS (an https endpoint) tells what"
        )
    }
  }

  private def fill(start: Long, into: Array[Byte], offset: Int, length: Int): Int =
    source.retrying("read") {
      attempt()
      val wanted = math.max(0L, math.min(length.toLong, end - start)).toInt
      if (position == 0) check = if (wanted == whole) tags.check(etag) else None
      try
        while (position - start < wanted) {
          if (stopped()) throw new InterruptedIOException("the stream was closed or unbuffered meanwhile")
          val done = (position - start).toInt
          val n = response.read(into, offset + done, wanted - done)
          if (n < 0) throw new EOFException(s"the response ended at $position, before its range did at $end")
          check.foreach(_.add(into, offset + done, n))
          position += n
        }
      catch {
        case e: InterruptedIOException if stopped() => throw e
        // The SDK throws its own, which are no IOExceptions, and the retries understand.
        case NonFatal(e) =>
          source.broke()
          close()
          throw e
      }
      wanted
    }

  override def close(): Unit =
    if (response != null) {
      val closing = response
      response = null
      try closing.close()
      // The bytes are here, or lost: how the connection ended changes nothing.
      catch { case _: IOException => () }
    }
}

private object ResumingDownload {

  /** How often a small object whose bytes and tag differ is asked for again. */
  val Comparisons = 3
}

/**
 * What an entity tag says of an object's bytes, where it has the form of their check sum: MD5, or for an upload of one
 * part the MD5 of that. S3 has nothing of the kind for a range.
 *
 * A store may make tags as it likes (of encrypted objects, for example). So a tag that differs is a reason to ask
 * again, and if the same bytes come again they are the object's; after some such objects nobody looks at tags any more.
 */
final private[read] class EtagVerifier(misleadings: Int = 3) {

  import EtagVerifier._

  private val misled = new AtomicInteger

  /** For the bytes of one object; none if its tag says nothing of them, or nobody looks at tags. */
  def check(etag: Option[String]): Option[EtagCheck] =
    if (misled.get >= misleadings) None
    else
      etag.collect {
        case Plain(expected) => new EtagCheck(expected, inOnePart = false)
        case OnePart(expected) => new EtagCheck(expected, inOnePart = true)
      }

  /** The same bytes came twice: it is the tag that says something else. */
  def misleading(): Unit = {
    misled.incrementAndGet()
    ()
  }
}

private[read] object EtagVerifier {

  /** Of all file systems of this process: it is about how their stores make tags. */
  val Shared = new EtagVerifier

  /** Checks nothing, at no cost: for bytes that the transport has vouched for. */
  val Unneeded = new EtagVerifier(misleadings = 0)

  private val Plain = "([0-9a-f]{32})".r
  private val OnePart = "([0-9a-f]{32})-1".r
}

/** Compares an object's bytes, in the order in which they come, with what its entity tag says. Not thread-safe. */
final private[read] class EtagCheck(expected: String, inOnePart: Boolean) {

  private val md5 = MessageDigest.getInstance("MD5")
  private var nanos = 0L

  def add(data: Array[Byte], offset: Int, length: Int): Unit = {
    val began = System.nanoTime
    md5.update(data, offset, length)
    nanos += System.nanoTime - began
  }

  /** Whether what was added is the object; to be asked once. */
  def agrees: Boolean = {
    val sum = md5.digest()
    Hex.encodeHexString(if (inOnePart) md5.digest(sum) else sum) == expected
  }

  /** Nanoseconds that adding has taken. */
  def took: Long = nanos
}
