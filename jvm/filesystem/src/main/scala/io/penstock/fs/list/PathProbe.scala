package io.penstock.fs.list

import java.nio.file.AccessDeniedException

/**
 * Finds out by one listing whether a path is an object, a directory or neither, where S3A sends a HEAD request and a
 * listing. The answer is that of the store at one moment after the question. Thread-safe.
 *
 * @param page
 *   the first objects whose keys begin with a prefix, so many at most, in the order of their keys; throws `IOException`
 */
final private[fs] class PathProbe(page: (String, Int) => KeyPage) {

  /** Whoever may read an object need not be allowed to list: then each question would cost a refusal. */
  @volatile private var denied = false

  /**
   * None where S3A must be asked: the listing does not tell, or this user may not list.
   *
   * @param key
   *   without a slash at its end
   * @throws java.io.IOException
   *   if the store cannot be asked
   */
  def find(key: String): Option[FoundPath] =
    if (denied) None
    else
      try FoundPath.in(page(key, PathProbe.Objects), key)
      catch {
        case _: AccessDeniedException =>
          denied = true
          None
      }
}

private[fs] object PathProbe {

  /** The object itself, or what is in the directory; and one more, for a neighbour that stands before them. */
  private val Objects = 2

  /**
   * Whether one listing is likely to answer. Most files' names have a suffix, or are those of Hadoop's tasks, and one
   * HEAD request finds them; names that have none are those of tables, and of what is looked for in vain.
   */
  def isLikelyDirectory(key: String): Boolean = {
    val name = key.substring(key.lastIndexOf('/') + 1)
    KeyPage.isPartition(name) || !(name.isEmpty || name.contains('.') || name.startsWith("part-"))
  }
}

/** What is at a path: an object takes precedence over a directory of the same name. */
sealed private[fs] trait FoundPath

private[fs] object FoundPath {
  final case class Object(listed: ListedObject) extends FoundPath
  case object Directory extends FoundPath
  case object Nothing extends FoundPath

  /** What the first page of the keys that begin with `key` tells; None if it ends before it tells. */
  private[list] def in(page: KeyPage, key: String): Option[FoundPath] = {
    val inside = s"$key/"
    page.objects.find(_.key == key).map(Object).orElse {
      if (page.objects.exists(_.key.startsWith(inside))) Some(Directory)
      else if (page.last || page.objects.exists(_.key > inside)) Some(Nothing)
      else None
    }
  }
}
