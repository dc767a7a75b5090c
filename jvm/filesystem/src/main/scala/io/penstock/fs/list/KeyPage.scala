package io.penstock.fs.list

/** An object as a listing tells of it. `modified` is in milliseconds since 1970. */
final case class ListedObject(key: String, length: Long, modified: Long, etag: String)

/** Some of the objects below a prefix, in the order of their keys; `last` if none follows. */
final case class KeyPage(objects: Vector[ListedObject], last: Boolean) {

  /**
   * What each partition directory below `parent` (with its slash) holds, of those that this page lists from their first
   * object to their last. It must have been asked for from the beginning of a directory. What has directories of its
   * own, and what is no partition (`column=value`), is left out.
   */
  def partitions(parent: String): Map[String, Vector[ListedObject]] = {
    val directories = objects.filter(below(parent, _).contains('/')).groupBy(below(parent, _).takeWhile(_ != '/'))
    val cut = if (last) None else objects.lastOption.map(below(parent, _).takeWhile(_ != '/'))
    for {
      (name, held) <- directories
      if KeyPage.isPartition(name) && !cut.contains(name)
      inside = parent.length + name.length + 1
      if !held.exists(_.key.indexOf('/', inside) >= 0)
      // A marker that the directory is there is not in it.
      files = held.filter(_.key.length > inside)
      if files.nonEmpty
    } yield name -> files
  }

  private def below(parent: String, listed: ListedObject): String = listed.key.substring(parent.length)
}

object KeyPage {
  def isPartition(directory: String): Boolean = directory.indexOf('=') > 0
}
