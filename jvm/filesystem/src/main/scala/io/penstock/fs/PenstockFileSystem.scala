package io.penstock.fs

import org.apache.hadoop.fs.s3a.S3AFileSystem
import org.apache.hadoop.fs.{BlockLocation, FileStatus}

import io.penstock.fs.locality.{LiveHosts, Ranges}

/**
 * S3A that tells where a file's pages are wanted: `fs.s3a.impl=io.penstock.fs.PenstockFileSystem`. Everything else is
 * S3A's own, and so are its settings.
 */
class PenstockFileSystem extends S3AFileSystem {

  /** The hosts that each range of the file prefers; what S3A says where there is no choice of hosts. */
  override def getFileBlockLocations(file: FileStatus, start: Long, length: Long): Array[BlockLocation] = {
    lazy val ring = LiveHosts.ring(getConf)
    if (file == null || start < 0 || length < 0 || file.isDirectory || ring.size < 2)
      super.getFileBlockLocations(file, start, length)
    else Ranges.locate(ring, file.getPath.toUri.getPath, file.getLen, start, length)
  }
}
