package io.penstock.cluster.scratch

import java.io.File

/**
 * One executor's own directory in memory: files by name, in sub-directories so that none becomes long.
 *
 * Nothing here throws for what a file system can do wrong: a directory that cannot be used holds no file.
 */
final private[cluster] class MemoryDirectory(val root: File) {
  import MemoryDirectory._

  def file(name: String): File = new File(new File(root, f"${Math.floorMod(name.hashCode, SubDirectories)}%02x"), name)

  /** Whether a file of that name can be created, as far as one can know. */
  def ready(name: String): Boolean = {
    val parent = file(name).getParentFile
    // Another thread may make it between the two questions.
    (parent.isDirectory || parent.mkdirs() || parent.isDirectory) && parent.canWrite
  }

  /** The sizes of all scratch files, each under its final name. */
  def sizes(): Map[ScratchName, Long] = {
    val found = for {
      directory <- entries(root).iterator
      file <- entries(directory)
      name <- ScratchName.parse(file.getName)
    } yield name -> file.length
    found.toMap
  }

  /** What its file system can still take, less what is to be kept free for others' mistakes. */
  def room(): Long = root.getUsableSpace - (root.getTotalSpace / KeptFreePart).min(MostKeptFree)

  private def entries(directory: File): Array[File] = Option(directory.listFiles).getOrElse(Array.empty)
}

private[cluster] object MemoryDirectory {
  private val SubDirectories = 64
  private val KeptFreePart = 20
  private val MostKeptFree = 256L << 20
}
