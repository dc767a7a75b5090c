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
      val root = fileSystem.makeQualified(path)
      Iterator.continually(listing).takeWhile(_.hasNext).map(_.next(): FileStatus).filter(isData(_, root)).toSeq
    }
  }

  def bytes(location: String, configuration: Configuration): Long = under(location, configuration).map(_.getLen).sum

  // Neither the file nor a directory on the way to it is hidden; `_date=1` is a partition.
  private def isData(file: FileStatus, root: Path): Boolean = Iterator
    .iterate(file.getPath)(_.getParent)
    .takeWhile(path => path != null && path != root)
    .map(_.getName)
    .forall(name => !name.startsWith(".") && (!name.startsWith("_") || name.contains("=")))
}
