package io.penstock.fs.read

import java.util.Locale
import java.util.concurrent.TimeUnit

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.FSDataInputStream
import org.apache.hadoop.fs.Options.OpenFileOptions
import org.apache.hadoop.fs.s3a.impl.streams.{
  AbstractObjectInputStreamFactory,
  ClassicObjectInputStreamFactory,
  FactoryBindingParameters,
  InputStreamType,
  ObjectInputStream,
  ObjectReadParameters,
  StreamFactoryRequirements,
  StreamIntegration
}
import org.apache.hadoop.fs.s3a.{Constants, S3AUtils}

import io.penstock.fs.cache.CacheSettings
import io.penstock.fs.cache.{PageCache, PageCaches}
import io.penstock.fs.gateways.GatewayClientFactory
import io.penstock.fs.store.EntityTag

/**
 * S3A's streams, read through the page cache: `fs.s3a.input.stream.type=custom` and
 * `fs.s3a.input.stream.custom.factory=io.penstock.fs.read.PageStreamFactory`.
 *
 * Where nothing can be kept (the cache is off, no tier works, the object is empty, or the client encrypts, whose clear
 * text must not lie on this machine), the streams are S3A's own.
 *
 * Which version a stream reads: the one whose entity tag is in the status it was opened with, which the store confirms
 * before a page of it is given out, unless it has lately: in a response, or by the status itself, if
 * [[io.penstock.fs.PenstockFileSystem]] has dated it. Without an entity tag (Spark's scans know only length and
 * modification time) it is the version that was seen under such a status before, for as long after the store has
 * confirmed it as `fs.s3a.penstock.cache.max.staleness` says; else the one that the first response carries. An object
 * that was deleted or overwritten before it was opened yields its old bytes only to a caller whose status is the old
 * one's, and only for so long. With `fs.s3a.penstock.cache.strict` every stream asks the store before it reads.
 */
class PageStreamFactory extends AbstractObjectInputStreamFactory("PageStreamFactory") {
  import PageStreamFactory._

  private val classic = new ClassicObjectInputStreamFactory
  private var settings: StreamSettings = _
  @volatile private var opened: Opened = _

  override def streamType(): InputStreamType = InputStreamType.Custom

  override protected def serviceInit(conf: Configuration): Unit = {
    super.serviceInit(conf)
    classic.init(conf)
    settings = StreamSettings(conf)
  }

  /** A factory has one bucket, whose name the first stream tells. */
  private def openedFor(bucket: String): Opened = {
    def open() = synchronized {
      if (opened == null) {
        val conf = getConfig
        val pages = if (isUsed(conf)) PageCaches.of(conf, bucket) else None
        val directories = if (pages.isDefined) PageCaches.directories(conf) else Nil
        opened = new Opened(pages, ObjectMetadataCache.in(directories))
      }
      opened
    }
    val known = opened
    if (known == null) open() else known
  }

  override def bind(parameters: FactoryBindingParameters): Unit = {
    super.bind(parameters)
    classic.bind(parameters)
  }

  override protected def serviceStart(): Unit = classic.start()

  override protected def serviceStop(): Unit = classic.stop()

  override def factoryRequirements(): StreamFactoryRequirements = classic.factoryRequirements()

  override def hasCapability(capability: String): Boolean = classic.hasCapability(capability)

  override def readObject(parameters: ObjectReadParameters): ObjectInputStream = {
    val opened = openedFor(parameters.getObjectAttributes.getBucket)
    opened.cache match {
      case Some(pages) if pages.keeps && parameters.getObjectAttributes.getLen > 0 =>
        open(parameters, pages, opened.known)
      case _ => classic.readObject(parameters)
    }
  }

  private def open(
      parameters: ObjectReadParameters,
      pages: PageCache,
      known: ObjectMetadataCache
  ): ObjectInputStream = {
    val chosen = settings
    import chosen._
    val attributes = parameters.getObjectAttributes
    val layout = Layout(attributes.getLen, pages.pageSize)
    val plan = ReadPlan(layout, longestRequest.max(pages.pageSize.toLong), shortestSeek, readOver, longestMerged)
    val listed = parameters.getContext.getDstFileStatus
    val modified = listed.getModificationTime / 1000
    val status = ObjectStatus(endpoint, attributes.getBucket, attributes.getKey, attributes.getLen, modified)
    val source = new S3ASource(parameters)
    val etag = EntityTag.strong(attributes.getETag)
    val scanned = ScannedFile.isAwaited(ScannedFile(listed.getPath, listed.getLen, listed.getModificationTime))
    // Who knows a length alone, as Spark where it infers a schema, may well ask for what others have read.
    val mayBeKept = scanned || modified == 0
    val resolver = new VersionResolver(status, known, strict, etag, source, maxStaleness, mayBeKept)
    val background = (work: Runnable) => {
      parameters.getCallbacks.submit[Unit](() => work.run())
      ()
    }
    val tags = if (overTls) EtagVerifier.Unneeded else EtagVerifier.Shared
    val reader = new PageReader(pages, plan, resolver, source, background, activeRequests, tags)
    new PageInputStream(parameters, reader, (longestRequest / pages.pageSize).toInt)
  }
}

private[fs] object PageStreamFactory {

  /**
   * Tells a stream that was just opened what S3A does not pass on to its streams: where its reader ends, which is the
   * end of a split, near which he may read on to the end of a record; and how old its status is.
   *
   * @param split
   *   the options with which it was opened
   * @param asked
   *   when the store was asked for the status with which it was opened, in milliseconds since 1970; none if unknown
   */
  def opened(split: Configuration, asked: Option[Long], stream: FSDataInputStream): FSDataInputStream = {
    val end = split.getLong(OpenFileOptions.FS_OPTION_OPENFILE_SPLIT_END, Undefined)
    stream.getWrappedStream match {
      case pages: PageInputStream =>
        if (end != Undefined) pages.endsAt(end)
        asked.foreach(pages.listed)
      case _ => ()
    }
    stream
  }

  private val Undefined = -1L

  /** What a factory keeps pages in, if anywhere, and what it knows of their objects. */
  final private class Opened(val cache: Option[PageCache], val known: ObjectMetadataCache)

  /** Whether the streams of a file system with these settings keep pages; else they are S3A's own. */
  def isUsed(conf: Configuration): Boolean = {
    val isOurs =
      conf.getTrimmed(Constants.INPUT_STREAM_TYPE, "").equalsIgnoreCase(Constants.INPUT_STREAM_TYPE_CUSTOM) &&
        conf.getTrimmed(Constants.INPUT_STREAM_CUSTOM_FACTORY, "") == classOf[PageStreamFactory].getName
    val encrypts = conf.getTrimmed(Constants.S3_ENCRYPTION_ALGORITHM, "").startsWith("CSE")
    isOurs && !encrypts
  }
}

/**
 * How streams read.
 *
 * @param endpoint
 *   what tells apart two stores that have buckets of the same name
 * @param maxStaleness
 *   for how many milliseconds a version that was seen is believed to be there
 * @param longestRequest
 *   in bytes; also the most that is fetched ahead at once
 * @param readOver
 *   in bytes; what a request costs a sequential reader, as bytes that would come in the same time
 * @param longestMerged
 *   in bytes; the most that ranges are joined to which go to their buffers alone
 * @param activeRequests
 *   of one vectored read, or of one reader who wants more than one request brings
 * @param overTls
 *   whether every response comes over TLS, which tells damaged bytes itself
 */
final private[read] case class StreamSettings(
    endpoint: String,
    strict: Boolean,
    maxStaleness: Long,
    longestRequest: Long,
    shortestSeek: Int,
    readOver: Int,
    longestMerged: Int,
    activeRequests: Int,
    overTls: Boolean
)

private[read] object StreamSettings {

  /** One request for a byte of each object in a minute costs nothing that can be measured. */
  private val DefaultMaxStaleness = TimeUnit.MINUTES.toMillis(1)

  /** A sequential reader pays a client's work for each request: with 8 MiB a cold scan took 1.3 times as long. */
  private val DefaultReadAhead = 32L * 1024 * 1024

  /** Some ten milliseconds of a connection. */
  private val DefaultReadOver = 4L * 1024 * 1024

  /** @param conf with the bucket's own settings already in place of the general ones */
  def apply(conf: Configuration): StreamSettings = {
    val vectored = StreamIntegration.populateVectoredIOContext(conf)
    StreamSettings(
      endpoint = conf.getTrimmed(Constants.ENDPOINT, "") + " " + conf.getTrimmed(Constants.AWS_REGION, ""),
      strict = conf.getBoolean(CacheSettings.Strict, false),
      maxStaleness = conf.getTimeDuration(CacheSettings.MaxStaleness, DefaultMaxStaleness, TimeUnit.MILLISECONDS),
      longestRequest = S3AUtils.longBytesOption(conf, CacheSettings.ReadAhead, DefaultReadAhead, 0),
      shortestSeek = vectored.getMinSeekForVectorReads,
      readOver = S3AUtils.longBytesOption(conf, CacheSettings.ReadOver, DefaultReadOver, 0).min(Int.MaxValue).toInt,
      longestMerged = vectored.getMaxReadSizeForVectorReads,
      activeRequests = math.max(1, vectored.getVectoredActiveRangeReads),
      overTls = overTls(conf)
    )
  }

  /**
   * Only where every endpoint is named: without a name the SDK follows the environment too. A name without a scheme has
   * S3A's.
   */
  private def overTls(conf: Configuration): Boolean = {
    val secure = conf.getBoolean(Constants.SECURE_CONNECTIONS, Constants.DEFAULT_SECURE_CONNECTIONS)
    val endpoints = conf.getTrimmed(Constants.ENDPOINT, "") +: conf.getTrimmedStrings(GatewayClientFactory.Endpoints)
    endpoints.map(_.toLowerCase(Locale.ROOT)).forall { endpoint =>
      endpoint.startsWith("https://") || (secure && endpoint.nonEmpty && !endpoint.contains("://"))
    }
  }
}
