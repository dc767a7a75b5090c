package io.penstock.catalog

import java.io.IOException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.hadoop.hive.metastore.{HiveMetaStore, HiveMetaStoreFsImpl, MetaStoreFS}

/**
 * How Hive's metastore deletes directories: `hive.metastore.fs.handler.class=io.penstock.catalog.WarehouseFiles`.
 *
 * Of two processes that create a database (a table, a partition) of one name at once, one is refused by PostgreSQL. It
 * then takes back the directory that it has made, and Hive deletes whatever is in it: the other one's first tables.
 * Here a creation that failed deletes a directory only if nothing is in it. What is dropped is deleted as ever.
 */
final class WarehouseFiles extends MetaStoreFS {

  private val hive = new HiveMetaStoreFsImpl

  override def deleteDir(
      files: FileSystem,
      directory: Path,
      recursive: Boolean,
      purge: Boolean,
      conf: Configuration
  ): Boolean =
    if (WarehouseFiles.isTakenBack) WarehouseFiles.deleteEmpty(files, directory)
    else hive.deleteDir(files, directory, recursive, purge, conf)
}

private object WarehouseFiles {

  private val Handler = classOf[HiveMetaStore.HMSHandler].getName

  private val Creations = Seq("create_", "add_", "append_")

  /** Hive tells by nothing but the caller why it deletes. */
  private def isTakenBack: Boolean = StackWalker.getInstance.walk[Boolean](
    _.anyMatch(frame => frame.getClassName == Handler && Creations.exists(frame.getMethodName.startsWith))
  )

  /** Whether it is gone. */
  private def deleteEmpty(files: FileSystem, directory: Path): Boolean =
    try files.delete(directory, false)
    catch { case _: IOException => false }
}
