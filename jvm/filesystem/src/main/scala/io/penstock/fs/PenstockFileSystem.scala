package io.penstock.fs

import org.apache.hadoop.fs.s3a.{S3AFileSystem, WriteOperationHelper}
import org.apache.hadoop.fs.store.audit.AuditSpan
import org.apache.hadoop.fs.{BlockLocation, FileStatus}

import io.penstock.fs.cache.{PageCache, PageCaches}
import io.penstock.fs.locality.{LiveHosts, Ranges}
import io.penstock.fs.write.WatchedWrites

/**
 * S3A that tells where a file's pages are wanted and leaves the pages of what it writes in the cache:
 * `fs.s3a.impl=io.penstock.fs.PenstockFileSystem`. Everything else is S3A's own, and so are its settings.
 */
class PenstockFileSystem extends S3AFileSystem {

  /**
   * Where the pages of what is written are left behind, if anywhere; not what S3A encrypts itself, of which the store
   * has other bytes than the writer. Asked for late: the bucket's own settings are known only once S3A has started.
   */
  private lazy val written: Option[PageCache] =
    if (!getConf.getBoolean(CacheSettings.WriteThrough, true) || createStoreContext().isCSEEnabled) None
    else PageCaches.of(getConf)

  /** S3A makes these anew for every stream it writes with. */
  override def createWriteOperationHelper(span: AuditSpan): WriteOperationHelper = {
    val s3a = super.createWriteOperationHelper(span)
    written.fold(s3a)(new WatchedWrites(s3a, this, _))
  }

  /** The hosts that each range of the file prefers; what S3A says where there is no choice of hosts. */
  override def getFileBlockLocations(file: FileStatus, start: Long, length: Long): Array[BlockLocation] = {
    lazy val ring = LiveHosts.ring(getConf)
    if (file == null || start < 0 || length < 0 || file.isDirectory || ring.size < 2)
      super.getFileBlockLocations(file, start, length)
    else Ranges.locate(ring, file.getPath.toUri.getPath, file.getLen, start, length)
  }
}
