package io.penstock.workloads.clients

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataOutputStream, Path}

import io.penstock.workloads.UsageError

/** A directory that a load fills and takes away again, and that must therefore be its own. */
object Place {

  /** Refuses a place with something in it: it would be measured, called wrong, and deleted. */
  def requireEmpty(location: String, configuration: Configuration): Unit = {
    val path = new Path(location)
    val fileSystem = path.getFileSystem(configuration)
    if (fileSystem.exists(path) && fileSystem.listStatusIterator(path).hasNext)
      throw new UsageError(s"$location is not empty: give --location a place of its own, which will be deleted.")
  }

  def remove(location: String, configuration: Configuration): Unit = {
    val path = new Path(location)
    val _ = path.getFileSystem(configuration).delete(path, true)
  }

  /** Replaces the file, and makes its directories; the stream is the request that stores it and nothing else. */
  def create(path: Path, configuration: Configuration): FSDataOutputStream =
    path
      .getFileSystem(configuration)
      .createFile(path)
      .overwrite(true)
      .recursive()
      // Otherwise S3A first asks the store whether a directory of that name is in the way.
      .opt("fs.s3a.create.performance", true)
      .build()
}
