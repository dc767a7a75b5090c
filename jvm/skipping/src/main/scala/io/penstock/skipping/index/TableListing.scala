package io.penstock.skipping.index

import java.io.FileNotFoundException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{EtagSource, FileStatus, Path}

/**
 * A data file as the file system lists it; `directory` and `name` as in [[FileEntry]].
 *
 * @param etag
 *   which version of the object was listed, where the file system tells
 */
private[skipping] case class ListedFile(
    directory: String,
    name: String,
    length: Long,
    modificationMs: Long,
    etag: Option[String]
) {

  /** Whether this, which the file system says of the file now, is said of the version that was listed. */
  def isVersionOf(now: FileStatus): Boolean = now.getLen == length && ((etag, ListedFile.etag(now)) match {
    // An object's own answer has whole seconds where some stores' listings have fractions.
    case (Some(listed), Some(present)) => listed == present && now.getModificationTime / 1000 == modificationMs / 1000
    case _ => now.getModificationTime == modificationMs
  })
}

private[skipping] object ListedFile {

  def apply(directory: String, status: FileStatus): ListedFile =
    ListedFile(directory, status.getPath.getName, status.getLen, status.getModificationTime, etag(status))

  private def etag(status: FileStatus): Option[String] = status match {
    case tagged: EtagSource => Option(tagged.getEtag).map(_.replace("\"", "")).filter(_.nonEmpty)
    case _ => None
  }
}

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
      } builder += ListedFile(directory, file)
    }
    builder.result()
  }

  /** As Spark's listing has it: a name with an equals sign is a partition's. */
  private def isHidden(name: String): Boolean = name.startsWith(".") || name.startsWith("_") && !name.contains("=")
}
