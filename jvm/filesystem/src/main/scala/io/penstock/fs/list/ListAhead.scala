package io.penstock.fs.list

import java.util.concurrent.ConcurrentHashMap

/**
 * Lists partition directories that are listed one after the other, as Spark does with those of a table, by pages of
 * objects instead of one by one: two thousand partitions of a file each are three requests.
 *
 * What is learnt ahead is for the thread that asked, and is forgotten when this process writes or deletes below the
 * same parent ([[ListAhead.changed]]): so a thread hears what others of its process have done, and what other processes
 * have done up to [[Siblings.MaxAge]] before.
 */
final private[fs] class ListAhead(
    pages: ListAhead.Pages,
    clock: () => Long
) {

  private val parents = new ConcurrentHashMap[(Long, String), Siblings]

  /**
   * The objects of a directory, in order; `alone`, which asks the store for this one, where it is no partition, holds
   * none or holds directories, and where nothing speaks for listing its siblings too.
   *
   * @param key
   *   of the directory, without a slash at its end
   */
  def list[A](key: String, alone: => A)(told: Vector[ListedObject] => A): A = {
    val parent = key.substring(0, key.lastIndexOf('/') + 1)
    val directory = key.substring(parent.length)
    if (parent.isEmpty || !KeyPage.isPartition(directory)) alone
    else {
      val siblings = of(parent)
      siblings.synchronized {
        siblings.ask(directory, clock()) match {
          case Answer.Known(objects) => Some(objects)
          case Answer.Ahead(objects) =>
            val asked = clock()
            val changes = siblings.changes
            val partitions = pages.page(parent, s"$key/", objects).partitions(parent)
            val found = siblings.learn(directory, partitions, asked, changes)
            siblings.answered(clock())
            found
          case Answer.Alone => None
        }
      } match {
        case Some(objects) => told(objects)
        case None =>
          try alone
          finally siblings.synchronized(siblings.answered(clock()))
      }
    }
  }

  /** Parents that nobody lists are forgotten: what is kept is of listings under way. */
  private def of(parent: String): Siblings = {
    if (parents.size > ListAhead.Parents) {
      val now = clock()
      parents.values.removeIf(_.isIdle(now))
    }
    parents.computeIfAbsent((Thread.currentThread.getId, parent), _ => new Siblings)
  }

  /** Something was written, moved or deleted at this key, or below it. */
  def changed(key: String): Unit = {
    val below = s"${key.stripSuffix("/")}/"
    parents.forEach { (of, siblings) =>
      if (key.startsWith(of._2) || of._2.startsWith(below)) siblings.changed()
    }
  }
}

private[fs] object ListAhead {

  /** Whether partitions are listed together; never with [[io.penstock.fs.CacheSettings.Strict]]. */
  val Enabled: String = "fs.s3a.penstock.list.ahead"

  private val Parents = 64

  trait Pages {

    /** Objects below `prefix` whose keys come after `after`, at most so many, in order. */
    def page(prefix: String, after: String, objects: Int): KeyPage
  }
}
