package io.penstock.fs.cache

import java.io.IOException
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.attribute.{BasicFileAttributes, PosixFilePermissions, UserPrincipal}
import java.nio.file.{
  FileAlreadyExistsException,
  Files,
  LinkOption,
  NoSuchFileException,
  NotDirectoryException,
  Path,
  Paths,
  StandardCopyOption,
  StandardOpenOption
}
import java.util.concurrent.atomic.AtomicLong
import java.util.zip.CRC32C
import java.util.{HexFormat, UUID}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.slf4j.LoggerFactory

/**
 * A tier's directory as this process has opened it:
 * {{{
 * lock                  claims, and who may make a new generation
 * v1/table              the page table
 * v1/touches            how often pages were read that are not kept
 * v1/pages/ab/ab…       one file per page, named by its key
 * v1/filling/           pages being written
 * v1-discarded-…        a generation whose table could not be read, until it has been removed
 * }}}
 * Opening reads the table's header and nothing else, however many pages there are.
 */
private[cache] final class TierDirectory private (
    directory: Path,
    val locks: LockFile,
    val words: SharedWords,
    identity: AnyRef
) {
  import TierDirectory._

  private val generation = directory.resolve(Generation)
  private val pages = generation.resolve("pages")
  private val filling = generation.resolve("filling")

  /** Made when it is first asked for; two processes that make it at once have one each, of which one is lost. */
  lazy val touches: SharedWords = {
    val path = generation.resolve("touches")
    if (!Files.exists(path)) {
      val temporary = filling.resolve(s"touches-$process-${serial.incrementAndGet()}")
      val channel = PrivateFiles.create(temporary)
      try channel.write(ByteBuffer.allocate(1), Touches.Size - 1L): Unit
      finally channel.close()
      Files.move(temporary, path, StandardCopyOption.ATOMIC_MOVE): Unit
    }
    val channel = FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE)
    try map(channel, Touches.Size)
    finally channel.close()
  }

  def pathOf(key: PageKey): Path = {
    val name = nameOf(key)
    pages.resolve(name.substring(0, 2)).resolve(name)
  }

  /** Bytes that the file system still has for us. */
  def free: Long = Files.getFileStore(generation).getUsableSpace

  /** Whether the directory still holds the table this process uses: it may have been removed, or replaced. */
  def isCurrent: Boolean = tableIdentity(generation).contains(identity)

  /** The page's file appears whole or not at all, in place of any of the same name. */
  def create(key: PageKey)(write: FileChannel => Unit): Unit = {
    val temporary = filling.resolve(s"$process-${serial.incrementAndGet()}")
    try {
      val channel = PrivateFiles.create(temporary)
      try write(channel)
      finally channel.close()
      place(temporary, key)
    } catch {
      case failure: Throwable =>
        try Files.deleteIfExists(temporary)
        catch { case _: IOException => () }
        throw failure
    }
  }

  /**
   * The page's file becomes that of another page, in place of any of the same name.
   *
   * @param relabel
   *   what is to be changed in it first; a process that dies meanwhile leaves a file that is no page of either name
   */
  def rename(from: PageKey, to: PageKey)(relabel: FileChannel => Unit): Unit = {
    val channel = FileChannel.open(pathOf(from), StandardOpenOption.WRITE)
    try relabel(channel)
    finally channel.close()
    place(pathOf(from), to)
  }

  private def place(file: Path, key: PageKey): Unit = {
    val path = pathOf(key)
    try Files.move(file, path, StandardCopyOption.ATOMIC_MOVE)
    catch {
      case _: NoSuchFileException =>
        PrivateFiles.createDirectories(path.getParent)
        Files.move(file, path, StandardCopyOption.ATOMIC_MOVE)
    }
    (): Unit
  }

  def delete(key: PageKey): Unit = Files.deleteIfExists(pathOf(key)): Unit

  /** The files of pages, whether the table knows them or not. */
  def pageFiles: Iterator[Path] = PrivateFiles.list(pages).iterator.flatMap(PrivateFiles.list)

  /** Removes what processes that died left behind: unfinished pages and discarded generations. */
  def tidy(): Unit = {
    val old = System.currentTimeMillis - EvictionPolicy.Abandoned * 1000L
    val unfinished = PrivateFiles.list(filling).filter(PrivateFiles.modified(_).exists(_ < old))
    val discarded = PrivateFiles.list(directory).filter(_.getFileName.toString.startsWith(Discarded))
    (unfinished ++ discarded).foreach(PrivateFiles.deleteTree)
  }
}

private[cache] object TierDirectory {

  private val log = LoggerFactory.getLogger(classOf[TierDirectory])

  private val Generation = "v1"
  private val Discarded = "v1-discarded-"

  /** The byte of the lock file under which generations are made; claims use those above it. */
  private val GenerationLock = 0L

  /** Processes of two pods that share the directory may have one process identifier. */
  private val process = UUID.randomUUID
  private val serial = new AtomicLong

  def nameOf(key: PageKey): String = {
    val hex = HexFormat.of()
    hex.toHexDigits(key.high) + hex.toHexDigits(key.low)
  }

  /** The key that a page file's name stands for; none if it is no page's name. */
  def keyOf(file: Path): Option[PageKey] = {
    val name = file.getFileName.toString
    try
      if (name.length != 32) None
      else Some(PageKey(HexFormat.fromHexDigitsToLong(name, 0, 16), HexFormat.fromHexDigitsToLong(name, 16, 32)))
    catch { case _: IllegalArgumentException => None }
  }

  /**
   * The directory as it is, if a cache was ever there: nothing is made, changed or discarded.
   *
   * @throws java.io.IOException
   *   if its table cannot be read
   */
  def existing(directory: Path): Option[TierDirectory] =
    if (!Files.exists(directory.resolve(Generation).resolve("table"))) None
    else mapTable(directory).orElse(throw new IOException("the page table is damaged: the next use starts a new one"))

  /**
   * Opens the directory, making what is missing.
   *
   * @param slots
   *   of the page table, if there is none yet
   * @throws java.io.IOException
   *   if it cannot be used
   */
  def open(directory: Path, slots: => Int): TierDirectory = {
    PrivateFiles.own(directory)
    // One thread of a process at a time: the lock is between processes.
    synchronized {
      LockFile.of(directory.resolve("lock")).holding(GenerationLock) {
        mapTable(directory).getOrElse {
          makeGeneration(directory, slots)
          mapTable(directory).getOrElse(throw new IOException(s"$directory: the page table cannot be read back"))
        }
      }
    }
  }

  private def mapTable(directory: Path): Option[TierDirectory] = {
    val generation = directory.resolve(Generation)
    tableIdentity(generation).flatMap { identity =>
      val channel = FileChannel.open(generation.resolve("table"), StandardOpenOption.READ, StandardOpenOption.WRITE)
      val words =
        try if (channel.size() > Int.MaxValue) None else Some(map(channel, channel.size()))
        finally channel.close()
      words
        .filter(PageTable.isFormatted)
        .map(new TierDirectory(directory, LockFile.of(directory.resolve("lock")), _, identity))
    }
  }

  private def makeGeneration(directory: Path, slots: Int): Unit = {
    val generation = directory.resolve(Generation)
    if (Files.exists(generation)) {
      val aside = directory.resolve(s"$Discarded${UUID.randomUUID}")
      Files.move(generation, aside, StandardCopyOption.ATOMIC_MOVE)
      log.warn("{}: the page table cannot be read, the cache starts empty; what was there is being removed", directory)
    }
    for (name <- Seq("pages", "filling")) PrivateFiles.createDirectories(generation.resolve(name))
    val unfinished = generation.resolve("table.new")
    val channel = PrivateFiles.create(unfinished)
    try PageTable.format(map(channel, PageTable.fileSize(slots)))
    finally channel.close()
    Files.move(unfinished, generation.resolve("table"), StandardCopyOption.ATOMIC_MOVE): Unit
  }

  private def map(channel: FileChannel, size: Long): SharedWords = {
    val memory: ByteBuffer = channel.map(FileChannel.MapMode.READ_WRITE, 0, size)
    new SharedWords(memory)
  }

  private def tableIdentity(generation: Path): Option[AnyRef] =
    try Some(Files.readAttributes(generation.resolve("table"), classOf[BasicFileAttributes]).fileKey)
    catch { case _: NoSuchFileException => None }
}

/** Which page a file holds. */
private[cache] final case class PageLabel(of: ObjectVersion, index: Long, pageSize: Int) {

  def key: PageKey = of.page(index, pageSize)

  /** How many bytes the page must have. */
  def length: Int = math.min(pageSize.toLong, of.length - index * pageSize).toInt
}

/**
 * The file of one page: its bytes, then a trailer that says whose they are and lets every block be checked alone.
 *
 * Trailer, big-endian: CRC32C of each block (4 bytes each), then bucket, key, entity tag and scope (UTF-8, each after
 * its length in 4 bytes), object length (8), index (8), page size (4), bytes of data (4), bytes of the whole trailer
 * (4), CRC32C of the trailer up to here (4), magic (8).
 */
private[cache] object PageFile {

  /**
   * Bytes that one checksum covers: what a reader of a few bytes has to check with them, and what still is in the
   * processor's nearest cache when its checksum is taken.
   */
  val ChecksumBlock: Int = 16 * 1024

  private val Magic = 0x50454e5041474532L // PENPAGE2
  private val EndSize = 16
  private val FixedSize = 4 * 4 + 8 + 8 + 4 + 4 + EndSize
  private val MaxTrailer = 1 << 20

  /** Not a page file, or not a whole one. */
  final class Damaged(message: String) extends IOException(message)

  /** What the trailer says. */
  final case class Trailer(label: PageLabel, length: Int, checksums: Array[Int])

  /** Writes the page whole; `data` keeps its position. */
  def write(to: FileChannel, data: ByteBuffer, trailer: ByteBuffer): Unit = {
    val buffers = Array(data.duplicate(), trailer)
    while (buffers.exists(_.hasRemaining)) to.write(buffers)
  }

  def trailerOf(label: PageLabel, data: ByteBuffer): ByteBuffer = {
    require(data.remaining == label.length, s"${data.remaining} bytes for a page of ${label.length}")
    trailerOf(
      label,
      Array.tabulate(blocksIn(data.remaining)) { block =>
        val from = block * ChecksumBlock
        checksum(data.slice(data.position() + from, math.min(ChecksumBlock, data.remaining - from)))
      }
    )
  }

  /** The trailer of a page whose blocks have these checksums. */
  def trailerOf(label: PageLabel, checksums: Array[Int]): ByteBuffer = {
    val texts = textsOf(label)
    val size = trailerSize(label)
    val trailer = ByteBuffer.allocate(size)
    checksums.foreach(trailer.putInt)
    for (text <- texts) trailer.putInt(text.length).put(text)
    trailer.putLong(label.of.length).putLong(label.index).putInt(label.pageSize).putInt(label.length).putInt(size)
    trailer.putInt(checksum(ByteBuffer.wrap(trailer.array, 0, size - 12))).putLong(Magic).flip()
  }

  /** Bytes of the trailer of this page. */
  def trailerSize(label: PageLabel): Int =
    blocksIn(label.length) * 4 + FixedSize + textsOf(label).map(_.length).sum

  private def textsOf(label: PageLabel): Seq[Array[Byte]] =
    Seq(label.of.bucket, label.of.key, label.of.etag, label.of.scope).map(_.getBytes(UTF_8))

  /** Puts another trailer behind the `length` bytes of data of a page that has one. */
  def replaceTrailer(file: FileChannel, length: Int, trailer: ByteBuffer): Unit = {
    file.truncate(length + trailer.remaining.toLong)
    file.position(length.toLong)
    while (trailer.hasRemaining) file.write(trailer)
  }

  def blocksIn(length: Int): Int = (length + ChecksumBlock - 1) / ChecksumBlock

  /** CRC32C, as every checksum of a page. */
  def checksum(bytes: ByteBuffer): Int = {
    val crc = new CRC32C
    crc.update(bytes)
    crc.getValue.toInt
  }

  /** Maps the whole file. */
  def map(path: Path): ByteBuffer = {
    val channel = FileChannel.open(path, StandardOpenOption.READ)
    try {
      val size = channel.size()
      if (size > Int.MaxValue) throw new Damaged(s"$path is too long for a page")
      channel.map(FileChannel.MapMode.READ_ONLY, 0, size)
    } finally channel.close()
  }

  /**
   * What the trailer of a whole page file says.
   *
   * @throws Damaged
   *   if it is not one, as when the file was cut short
   */
  def trailerIn(file: ByteBuffer): Trailer = {
    val fileSize = file.capacity
    if (fileSize < FixedSize) throw new Damaged("too short for a page")
    if (file.getLong(fileSize - 8) != Magic) throw new Damaged("does not end as a page does")
    val size = file.getInt(fileSize - EndSize)
    if (size < FixedSize || size > math.min(fileSize, MaxTrailer)) throw new Damaged("the trailer's size is impossible")
    val bytes = new Array[Byte](size)
    file.get(fileSize - size, bytes)
    val trailer = ByteBuffer.wrap(bytes)
    if (checksum(ByteBuffer.wrap(bytes, 0, size - 12)) != trailer.getInt(size - 12))
      throw new Damaged("the trailer's checksum is wrong")
    val length = trailer.getInt(size - EndSize - 4)
    if (length.toLong + size != fileSize) throw new Damaged("data or trailer are missing")
    val checksums = Array.fill(blocksIn(length))(trailer.getInt())
    def text(): String = {
      val bytes = new Array[Byte](trailer.getInt())
      trailer.get(bytes)
      new String(bytes, UTF_8)
    }
    val (bucket, key, etag, scope) = (text(), text(), text(), text())
    val version = ObjectVersion(bucket, key, trailer.getLong(), etag, scope)
    Trailer(PageLabel(version, trailer.getLong(), trailer.getInt()), length, checksums)
  }
}

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
