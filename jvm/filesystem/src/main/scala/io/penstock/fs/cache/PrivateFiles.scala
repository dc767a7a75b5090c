package io.penstock.fs.cache

import java.io.IOException
import java.nio.channels.FileChannel
import java.nio.file.attribute.{PosixFilePermissions, UserPrincipal}
import java.nio.file.{FileAlreadyExistsException, Files, LinkOption, NoSuchFileException, NotDirectoryException}
import java.nio.file.{Path, Paths, StandardOpenOption}

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
   *   if it is somebody else's, who could put pages there, or below one that others could put another in place of, or
   *   behind somebody else's link, who chose which directory of ours is used, and may choose another
   */
  def own(directory: Path): Unit = {
    requireOwnLinks(directory)
    createDirectories(directory)
    val probe = Files.createTempFile(directory, "owner", "")
    try {
      val me = Files.getOwner(probe)
      if (me != Files.getOwner(directory))
        throw new IOException(s"$directory belongs to ${Files.getOwner(directory)}: its pages cannot be trusted")
      parentsOf(directory.toRealPath()).filterNot(isTrusted(_, me)).foreach { parent =>
        throw new IOException(
          s"$parent belongs to ${Files.getOwner(parent)} and has mode ${modeOf(parent).toOctalString}: others could put " +
            s"another directory in the place of $directory. Take that right away (chmod o-w), or choose another place"
        )
      }
    } finally Files.delete(probe)
    if (Files.getPosixFilePermissions(directory) != directoryMode)
      Files.setPosixFilePermissions(directory, directoryMode)
  }

  private def requireOwnLinks(directory: Path): Unit = {
    val me = Files.getAttribute(Self, "unix:uid")
    (Iterator.single(directory) ++ parentsOf(directory))
      .filter(Files.isSymbolicLink)
      .filterNot(link =>
        (RootAndOutside + me).contains(Files.getAttribute(link, "unix:uid", LinkOption.NOFOLLOW_LINKS))
      )
      .foreach { link =>
        val owner = Files.getOwner(link, LinkOption.NOFOLLOW_LINKS)
        throw new IOException(s"$link is a link of $owner, who could lead the cache anywhere: choose another place")
      }
  }

  private def parentsOf(directory: Path): Iterator[Path] =
    Iterator.iterate(directory.getParent)(_.getParent).takeWhile(_ != null)

  /** Whether nobody but its owner, who is this user or root, can move what is in it. */
  private def isTrusted(directory: Path, me: UserPrincipal): Boolean = {
    val byRoot = RootAndOutside.contains(Files.getAttribute(directory, "unix:uid"))
    val byOthers = (modeOf(directory) & OthersMayWrite) != 0 && (modeOf(directory) & Sticky) == 0
    // The volume of a container: who else is in there is the container's own.
    (Files.getOwner(directory) == me || byRoot) && (!byOthers || (byRoot && isMounted(directory)))
  }

  private def modeOf(path: Path): Int = Files.getAttribute(path, "unix:mode").asInstanceOf[Int] & 0xfff

  private def isMounted(directory: Path): Boolean = Option(directory.getParent).exists { parent =>
    Files.getAttribute(directory, "unix:dev") != Files.getAttribute(parent, "unix:dev")
  }

  /** Root, and what a container shows root as that is not its own. */
  private val RootAndOutside = Set[Any](0, 65534)

  /** It belongs to who runs this process. */
  private val Self = Paths.get("/proc/self")

  private val OthersMayWrite = 2
  private val Sticky = 0x200

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
