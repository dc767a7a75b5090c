package io.penstock.fs.cache

import java.io.IOException
import java.nio.channels.FileChannel
import java.nio.file.attribute.PosixFilePermissions
import java.nio.file.{FileAlreadyExistsException, Files, LinkOption, NoSuchFileException, NotDirectoryException}
import java.nio.file.{Path, StandardOpenOption}

import scala.jdk.CollectionConverters._
import scala.util.Using

/** Files and directories that only their owner may read: pages are the lake's data without the lake's access rules. */
private[cache] object PrivateFiles {

  private val directoryMode = PosixFilePermissions.fromString("rwx------")
  private val asDirectory = PosixFilePermissions.asFileAttribute(directoryMode)
  private val asFile = PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"))
  private val newFile = Set(StandardOpenOption.READ, StandardOpenOption.WRITE, StandardOpenOption.CREATE_NEW).asJava

  def createFile(path: Path): Unit =
    try create(path).close()
    catch { case _: FileAlreadyExistsException => () }

  /** A new file, open for writing. */
  def create(path: Path): FileChannel = FileChannel.open(path, newFile, asFile)

  def createDirectories(path: Path): Unit = Files.createDirectories(path, asDirectory): Unit

  /**
   * A directory of one's own.
   *
   * @throws java.io.IOException
   *   if it is somebody else's, who could put pages there
   */
  def own(directory: Path): Unit = {
    createDirectories(directory)
    val probe = Files.createTempFile(directory, "owner", "")
    try
      if (Files.getOwner(probe) != Files.getOwner(directory))
        throw new IOException(s"$directory belongs to ${Files.getOwner(directory)}: its pages cannot be trusted")
    finally Files.delete(probe)
    if (Files.getPosixFilePermissions(directory) != directoryMode)
      Files.setPosixFilePermissions(directory, directoryMode)
  }

  /** The entries of a directory; none if it is not there, or not any more. */
  def list(directory: Path): Vector[Path] =
    try Using.resource(Files.list(directory))(_.iterator.asScala.toVector)
    catch { case _: NoSuchFileException | _: NotDirectoryException => Vector.empty }

  /** When a file was written last, in milliseconds since the epoch; none if it is not there any more. */
  def modified(file: Path): Option[Long] =
    try Some(Files.getLastModifiedTime(file).toMillis)
    catch { case _: NoSuchFileException => None }

  /** Several processes may do so at once: what the others leave to do is done. */
  def deleteTree(path: Path): Unit = {
    if (Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS)) list(path).foreach(deleteTree)
    Files.deleteIfExists(path): Unit
  }
}
