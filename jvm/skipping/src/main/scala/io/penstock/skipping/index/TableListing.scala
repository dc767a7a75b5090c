package io.penstock.skipping.index

import java.io.FileNotFoundException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/** A data file as the file system lists it; `directory` and `name` as in [[FileEntry]]. */
private[skipping] case class ListedFile(directory: String, name: String, length: Long, modificationMs: Long)

private[skipping] object TableListing {

  /** The files below a table's root that Spark would take for data. Throws an `IOException`. */
  def list(root: Path, conf: Configuration): Vector[ListedFile] = {
    val builder = Vector.newBuilder[ListedFile]
    // On an object store this is one flat listing, whatever the number of partitions.
    val files =
      try root.getFileSystem(conf).listFiles(root, true)
      catch {
        case e: FileNotFoundException =>
          throw new FileNotFoundException(s"There is no table at $root: name the directory its files are in")
            .initCause(e)
      }
    while (files.hasNext) {
      val file = files.next()
      for {
        directory <- TablePath.relative(root, file.getPath.getParent)
        if !isHidden(file.getPath.getName) && !directory.split('/').exists(isHidden) && file.getLen > 0
      } builder += ListedFile(directory, file.getPath.getName, file.getLen, file.getModificationTime)
    }
    builder.result()
  }

  /** As Spark's listing has it: a name with an equals sign is a partition's. */
  private def isHidden(name: String): Boolean = name.startsWith(".") || name.startsWith("_") && !name.contains("=")
}
