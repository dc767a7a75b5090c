package io.penstock.workloads

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}

/**
 * The files that hold data, below a directory: not markers, manifests and check sums, as Spark's own readers see it.
 */
object DataFiles {

  /** Recursively; none where there is no such directory. */
  def under(location: String, configuration: Configuration): Seq[FileStatus] = {
    val path = new Path(location)
    val fileSystem = path.getFileSystem(configuration)
    if (!fileSystem.exists(path)) Nil
    else {
      val listing = fileSystem.listFiles(path, true)
      Iterator.continually(listing).takeWhile(_.hasNext).map(_.next(): FileStatus).filter(isData).toSeq
    }
  }

  def bytes(location: String, configuration: Configuration): Long = under(location, configuration).map(_.getLen).sum

  private def isData(file: FileStatus): Boolean = !Seq("_", ".").exists(file.getPath.getName.startsWith)
}
