package io.penstock.fs.cache

import java.io.IOException
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.file.attribute.BasicFileAttributes
import java.nio.file.{Files, NoSuchFileException, Path, StandardCopyOption, StandardOpenOption}
import java.util.concurrent.atomic.AtomicLong
import java.util.{HexFormat, UUID}

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
