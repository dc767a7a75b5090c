package io.penstock.fs.list

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.s3a.S3AFileSystem

import io.penstock.fs.StoreRequests

/** Pages of objects as the store lists them. */
final private[fs] class StorePages(fs: S3AFileSystem) extends ListAhead.Pages {

  private val store = new StoreRequests(fs)

  override def page(prefix: String, after: String, objects: Int): KeyPage = {
    val request = store.requests.newListObjectsV2RequestBuilder(prefix, null, objects).startAfter(after).build()
    val answer = store.retrying("list", after)(store.client.listObjectsV2(request))
    val listed = answer.contents.asScala.iterator.map { o =>
      ListedObject(o.key, o.size.longValue, o.lastModified.toEpochMilli, o.eTag)
    }
    KeyPage(listed.toVector, last = !answer.isTruncated)
  }
}
