package io.penstock.fs.read

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{EtagSource, FSDataInputStream, FileStatus, FileSystem}

import io.penstock.fs.EntityTag
import io.penstock.fs.cache.{ObjectIdentity, PageCache, PageCaches}

/**
 * Small objects that are here whole. For each stream S3A asks another thread, and makes a store of some fifty
 * statistics that it copies when the stream is closed: half a millisecond, where reading such an object takes a
 * hundredth of one. They need nothing of it.
 */
final private[fs] class WarmObjects(pages: PageCache, known: KnownObjects, settings: StreamSettings) {

  /**
   * The version that a stream reads which is opened with this status; none if any of its pages is missing, if it has
   * more than those of a small object, or if the store is to be asked first which version it is.
   */
  def find(bucket: String, key: String, status: FileStatus): Option[ObjectIdentity] = {
    val layout = Layout(status.getLen, pages.pageSize)
    if (layout.pages == 0 || layout.pages > ReadPlan.SmallObjectPages) None
    else
      versionOf(bucket, key, status)
        .map(ObjectIdentity(bucket, key, layout.length, _))
        .filter(of => (0L until layout.pages).forall(pages.has(of, _)))
  }

  private def versionOf(bucket: String, key: String, status: FileStatus): Option[String] = {
    val etag = status match {
      case told: EtagSource => EntityTag.strong(told.getEtag)
      case _ => None
    }
    val asked = ObjectStatus(settings.endpoint, bucket, key, status.getLen, status.getModificationTime / 1000)
    val record = if (etag.isEmpty && asked.modified > 0) known.get(asked) else None
    Identification.decide(etag, record, settings.strict, System.currentTimeMillis, settings.maxStaleness) match {
      case Identification.Given(version) => Some(version)
      case Identification.Seen(version) => Some(version)
      case Identification.Confirm(_) | Identification.Learn => None
    }
  }

  /** As [[WarmInputStream]]. */
  def open(
      of: ObjectIdentity,
      statistics: FileSystem.Statistics
  )(otherwise: Option[String] => FSDataInputStream): FSDataInputStream =
    new FSDataInputStream(new WarmInputStream(pages, of, statistics, otherwise))
}

private[fs] object WarmObjects {

  /** None where streams are S3A's own. `conf` is a bucket's, with its own settings in place of the general ones. */
  def of(conf: Configuration): Option[WarmObjects] =
    PageStreamFactory
      .pages(conf)
      .map(new WarmObjects(_, KnownObjects.in(PageCaches.directories(conf)), StreamSettings(conf)))
}
