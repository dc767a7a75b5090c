package io.penstock.skipping.index

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata

/**
 * Which files of an index those of a listing are. They come directory by directory: what was found out for the last one
 * is remembered, so this is for one thread.
 */
private[skipping] class ListedFiles(index: TableIndex) {

  private val root = index.root
  private var lastParent: Path = _
  private var lastDirectory: Option[String] = None

  /** The file's number; -1 where it is outside of the table's root, or not as the index knows it. */
  def number(file: FileStatusWithMetadata): Int = directory(file.getPath.getParent).fold(-1) { directory =>
    index.find(directory, file.getPath.getName, file.getLen, file.getModificationTime)
  }

  private def directory(parent: Path): Option[String] = {
    if (parent != lastParent) {
      lastParent = parent
      lastDirectory = TablePath.relative(root, parent.toString)
    }
    lastDirectory
  }
}
