package org.apache.spark.penstock.cluster

import java.io.File
import java.util.UUID

import org.apache.spark.storage._
import org.apache.spark.util.Utils
import org.apache.spark.{SparkConf, SparkEnv}

import io.penstock.cluster.scratch.{Scratch, ScratchName}

/**
 * Spark's disk block manager with shuffle and spill files in `scratch`.
 *
 * Other executors look in the directories that `disk` has registered with the driver, which stay the same.
 */
private[spark] class ScratchBlockManager private (
    conf: SparkConf,
    disk: DiskBlockManager,
    scratch: Scratch,
    memory: File,
    override private[spark] val localDirs: Array[File],
    override private[spark] val localDirsString: Array[String]
) extends DiskBlockManager(conf, deleteFilesOnStop = false, isDriver = false) {

  override def getFile(name: String): File = ScratchName.parse(name).fold(disk.getFile(name))(scratch.file)

  override def createTempFileWith(file: File): File = scratch.sibling(file, super.createTempFileWith(file))

  override def createTempLocalBlock(): (TempLocalBlockId, File) = {
    val id = TempLocalBlockId(UUID.randomUUID())
    (id, newFile(id))
  }

  override def createTempShuffleBlock(): (TempShuffleBlockId, File) = {
    val id = TempShuffleBlockId(UUID.randomUUID())
    (id, newFile(id))
  }

  private def newFile(id: BlockId): File = ScratchName.parse(id.name).fold(disk.getFile(id))(scratch.newFile)

  /** Files in memory that other executors may read are among them, by their links on disk. */
  override def getAllFiles(): Seq[File] = disk.getAllFiles().filter(_.exists())

  override private[spark] def stop(): Unit = {
    super.stop()
    disk.stop()
    // A killed process leaves it to its supervisor.
    Utils.tryLogNonFatalError(Utils.deleteRecursively(memory))
  }
}

object ScratchBlockManager {

  /**
   * Give this process's block manager its scratch, before its first task, by replacing a private field of it.
   *
   * @param memory
   *   this process's own directory in memory, below which Spark's constructor creates one that stays empty
   */
  def install(scratch: (String => File) => Scratch, memory: File): Scratch = {
    val blocks = SparkEnv.get.blockManager
    val disk = blocks.diskBlockManager
    val installed = scratch(disk.getFile(_: String))
    val manager =
      new ScratchBlockManager(
        new ElsewhereConf(blocks.conf, memory),
        disk,
        installed,
        memory,
        disk.localDirs,
        disk.localDirsString
      )
    val field = classOf[BlockManager].getDeclaredField("diskBlockManager")
    field.setAccessible(true)
    field.set(blocks, manager)
    installed
  }

  /** The same settings with one directory for local files, whatever the environment has. */
  private class ElsewhereConf(conf: SparkConf, directory: File) extends SparkConf(false) {
    setAll(conf.getAll).set("spark.local.dir", directory.getPath)
    override private[spark] def getenv(name: String): String = null
  }
}
