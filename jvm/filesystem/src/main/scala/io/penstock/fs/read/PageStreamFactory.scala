package io.penstock.fs.read

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.Constants
import org.apache.hadoop.fs.s3a.impl.streams.{
  AbstractObjectInputStreamFactory,
  ClassicObjectInputStreamFactory,
  FactoryBindingParameters,
  InputStreamType,
  ObjectInputStream,
  ObjectReadParameters,
  StreamFactoryRequirements
}

import io.penstock.fs.cache.{PageCache, PageCaches}

/**
 * S3A's streams, read through the page cache: `fs.s3a.input.stream.type=custom` and
 * `fs.s3a.input.stream.custom.factory=io.penstock.fs.read.PageStreamFactory`.
 *
 * Where nothing can be kept (the cache is off, no tier works, the object is empty, or the client encrypts, whose clear
 * text must not lie on this machine), the streams are S3A's own.
 *
 * Which version a stream reads: the one whose entity tag is in the status it was opened with; without one (Spark's
 * tasks know only length and modification time) the one that was seen under such a status before; else the one that the
 * first response carries. So an object that was overwritten before it was opened yields its old bytes only to a caller
 * whose status is the old one's. With `fs.s3a.penstock.cache.strict` every stream asks the store before it reads.
 */
class PageStreamFactory extends AbstractObjectInputStreamFactory("PageStreamFactory") {

  private val classic = new ClassicObjectInputStreamFactory
  private var settings: StreamSettings = _
  private var cache: Option[PageCache] = None
  private var known: KnownObjects = KnownObjects.None

  override def streamType(): InputStreamType = InputStreamType.Custom

  override protected def serviceInit(conf: Configuration): Unit = {
    super.serviceInit(conf)
    classic.init(conf)
    settings = StreamSettings(conf)
    val encrypts = conf.getTrimmed(Constants.S3_ENCRYPTION_ALGORITHM, "").startsWith("CSE")
    cache = if (encrypts) None else PageCaches.of(conf)
    if (cache.isDefined) known = KnownObjects.in(PageCaches.directories(conf))
  }

  override def bind(parameters: FactoryBindingParameters): Unit = {
    super.bind(parameters)
    classic.bind(parameters)
  }

  override protected def serviceStart(): Unit = classic.start()

  override protected def serviceStop(): Unit = classic.stop()

  override def factoryRequirements(): StreamFactoryRequirements = classic.factoryRequirements()

  override def hasCapability(capability: String): Boolean = classic.hasCapability(capability)

  override def readObject(parameters: ObjectReadParameters): ObjectInputStream =
    cache match {
      case Some(pages) if pages.keeps && parameters.getObjectAttributes.getLen > 0 => open(parameters, pages)
      case _ => classic.readObject(parameters)
    }

  private def open(parameters: ObjectReadParameters, pages: PageCache): ObjectInputStream = {
    val StreamSettings(endpoint, strict, longestRequest, shortestSeek, activeRequests) = settings
    val attributes = parameters.getObjectAttributes
    val plan =
      ReadPlan(Layout(attributes.getLen, pages.pageSize), longestRequest.max(pages.pageSize.toLong), shortestSeek)
    val modified = parameters.getContext.getDstFileStatus.getModificationTime / 1000
    val status = ObjectStatus(endpoint, attributes.getBucket, attributes.getKey, attributes.getLen, modified)
    val source = new S3ASource(parameters)
    val identity =
      new StreamIdentity(status, known, strict, Option(attributes.getETag).flatMap(S3ASource.strong), source)
    val background = (work: Runnable) => {
      parameters.getCallbacks.submit[Unit](() => work.run())
      ()
    }
    val reader = new PageReader(pages, plan, identity, source, background, activeRequests)
    new PageInputStream(parameters, reader, (longestRequest / pages.pageSize).toInt)
  }
}
