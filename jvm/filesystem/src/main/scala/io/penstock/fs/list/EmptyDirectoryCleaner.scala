package io.penstock.fs.list

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.s3a.S3AFileSystem

import io.penstock.fs.store.StoreClient

/**
 * Directories that a store goes on listing after the last object below them was deleted. An S3 store has none;
 * SeaweedFS keeps objects in real ones and removes an empty one minutes later, and a table that was dropped is there
 * until then.
 */
final private[fs] class EmptyDirectoryCleaner(store: EmptyDirectoryCleaner.Store) {

  /**
   * Removes `directory` (a key with its slash) and all directories below it. What was written there meanwhile stays,
   * and so do the directories it is in. One listing and one deletion for each level that holds directories, whatever
   * their number.
   */
  def remove(directory: String): Unit = {
    removeBelow(directory)
    store.delete(Vector(directory))
  }

  private def removeBelow(directory: String): Unit = {
    val found = store.directories(directory)
    if (found.nonEmpty) {
      // Those that hold no others are gone by this, and they are most of them: a table's partitions.
      store.delete(found)
      val holding = store.directories(directory)
      holding.foreach(removeBelow)
      store.delete(holding)
    }
  }
}

private[fs] object EmptyDirectoryCleaner {

  /** Set for a lake whose store is like that: `true`. */
  val Setting: String = "fs.s3a.penstock.directories.linger"

  trait Store {

    /** The directories right below one, as keys with a slash. */
    def directories(directory: String): Vector[String]

    /** Deletes these, but none that holds anything. */
    def delete(directories: Vector[String]): Unit
  }

  def of(fs: S3AFileSystem): EmptyDirectoryCleaner = new EmptyDirectoryCleaner(new Listed(new StoreClient(fs)))

  final private class Listed(store: StoreClient) extends Store {

    override def directories(directory: String): Vector[String] = {
      val request = store.requests.newListObjectsV2RequestBuilder(directory, "/", StoreClient.PageSize).build()
      store.retrying("list", directory) {
        store.client.listObjectsV2Paginator(request).commonPrefixes.asScala.iterator.map(_.prefix).toVector
      }
    }

    override def delete(directories: Vector[String]): Unit = store.delete(directories)
  }
}
