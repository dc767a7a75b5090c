package io.penstock.cluster.scratch

import java.io.{File, IOException}
import java.nio.file.{Files, Path}
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.{AtomicBoolean, AtomicReference, LongAdder}

import org.slf4j.LoggerFactory

import io.penstock.cluster.scratch.Scratch._

/**
 * Places one executor's shuffle and spill files: in memory while its share of the budget lasts, else on disk.
 *
 * The file systems know where an existing file is, so no state is kept for it. A choice stands until the file exists:
 * Spark writes a file beside its place and renames it, which works only within one file system.
 *
 * A file in memory that others may read has a symbolic link in its place on disk, since executors of one host read each
 * other's map outputs at the paths of Spark's own rule.
 *
 * @param share
 *   the most bytes in memory
 * @param onDisk
 *   the place of a name on disk
 * @param closed
 *   a file with the reason, which exists once memory has failed any executor of the application
 */
final class Scratch private[cluster] (
    memory: MemoryDirectory,
    share: Long,
    onDisk: String => File,
    closed: Path,
    nanoTime: () => Long = () => System.nanoTime
) {

  private var placement = ScratchPlacement(share)
  private val chosen = new ConcurrentHashMap[ScratchName, ScratchPlacement.Decision]
  private val memoryBytes = new LongAdder
  private val diskBytes = new LongAdder
  private val fellOver = new AtomicReference("")
  private var nextLook = Long.MinValue

  /** The file of that name, wherever it is or will be. */
  def file(name: ScratchName): File = {
    val inMemory = memory.file(name.text)
    if (inMemory.exists()) found(name, inMemory, memoryBytes)
    else {
      val there = onDisk(name.text)
      if (there.exists()) found(name, there, diskBytes)
      else as(name, chosen.computeIfAbsent(name, choose(_)))
    }
  }

  /** The place of a new file whose name no other caller uses. */
  def newFile(name: ScratchName): File = as(name, choose(name))

  /** The temporary sibling that will be renamed to `target`, which `file` gave out. */
  def sibling(target: File, temporary: File): File = target match {
    case placed: ScratchFile => placed.sibling(temporary)
    case _ => temporary
  }

  /** Close memory to every executor of the application, after a failed write. */
  def close(why: String): Unit = {
    log.warn(s"Shuffle and spill go to disk from now on: $why")
    synchronized { placement = placement.close(why) }
    try Files.writeString(closed, why)
    catch {
      case problem: IOException =>
        log.warn(s"Other executors may go on to use memory: $closed cannot be written", problem)
    }
  }

  def reading(): Reading = Reading(memoryBytes.sum, diskBytes.sum, fellOver.get)

  private def found(name: ScratchName, file: File, bytes: LongAdder): File = {
    chosen.remove(name)
    new ScratchFile(name, file, bytes, forget)
  }

  private def as(name: ScratchName, decision: ScratchPlacement.Decision): File = decision match {
    case ScratchPlacement.Memory => new ScratchFile(name, memory.file(name.text), memoryBytes, forget)
    case ScratchPlacement.Disk(_) => new ScratchFile(name, onDisk(name.text), diskBytes, forget)
  }

  private def choose(name: ScratchName): ScratchPlacement.Decision = {
    val decision = decide(name)
    decision match {
      case ScratchPlacement.Disk(why) =>
        if (fellOver.compareAndSet("", why)) log.info(s"Shuffle and spill go to disk: $why")
      case ScratchPlacement.Memory => if (!name.temporary) link(name)
    }
    decision
  }

  private def decide(name: ScratchName): ScratchPlacement.Decision = synchronized {
    if (placement.closed.isEmpty) {
      if (Files.exists(closed)) placement = placement.close(Files.readString(closed))
      else if (!memory.ready(name.text)) close(s"${memory.root} cannot be written")
    }
    look()
    val (decision, next) = placement.place(name)
    placement = next
    decision
  }

  /** Done by callers that ask for a place, so that an executor that writes nothing does no work. */
  private def look(): Unit = {
    val started = nanoTime()
    if (started >= nextLook) {
      placement = placement.looked(memory.sizes(), memory.room())
      val ended = nanoTime()
      nextLook = ended + LookEveryNanos.max((ended - started) * MostOfTime)
    }
  }

  private def link(name: ScratchName): Unit = {
    val place = onDisk(name.text).toPath
    Files.deleteIfExists(place)
    Files.createSymbolicLink(place, memory.file(name.text).toPath)
  }

  /** Without this, an application of many shuffles leaves a link for each of their files. */
  private def unlink(name: ScratchName): Unit =
    if (!name.temporary && !memory.file(name.text).exists()) {
      val place = onDisk(name.text).toPath
      if (Files.isSymbolicLink(place)) { val _ = Files.deleteIfExists(place) }
    }

  private def forget(name: ScratchName, size: Long): Unit = {
    chosen.remove(name)
    unlink(name)
    synchronized { placement = placement.gone(name, size) }
  }
}

object Scratch {

  private val log = LoggerFactory.getLogger(classOf[Scratch])

  private val LookEveryNanos = 100L * 1000 * 1000

  /**
   * A slow look is repeated less often, so that looks take no more than a twentieth of a task's time.
   */
  private val MostOfTime = 20L

  /**
   * Cumulative bytes in memory and on disk; a file counts when it is complete or removed. `fellOver` is the reason why
   * the first file went to disk, empty where none did.
   */
  final case class Reading(memoryBytes: Long, diskBytes: Long, fellOver: String) {
    def +(other: Reading): Reading = Reading(
      memoryBytes + other.memoryBytes,
      diskBytes + other.diskBytes,
      if (fellOver.isEmpty) other.fellOver else fellOver
    )
  }

  object Reading {
    val Zero: Reading = Reading(0, 0, "")
  }
}

/**
 * A file that counts its bytes and reports its removal. Spark writes, renames and removes plain files, but through the
 * objects that it was given.
 *
 * Spark moves the only spill of a task by its path, to be the map output, and then asks the object whether the file is
 * still there to be removed. Without an answer of its own to that, the spill's reservation would stand until it lapses.
 *
 * Each byte counts once: when its file is renamed into place, or, for any other file, when it is removed or was moved.
 */
final private[scratch] class ScratchFile(
    name: ScratchName,
    file: File,
    bytes: LongAdder,
    forget: (ScratchName, Long) => Unit,
    sibling: Boolean = false
) extends File(file.getPath) {

  private val ended = new AtomicBoolean
  @volatile private var sizeBefore = 0L

  def sibling(temporary: File): File = new ScratchFile(name, temporary, bytes, forget, sibling = true)

  /** A spill that Spark is about to move has its size no longer when it is found to be gone. */
  override def toPath: Path = {
    if (isSpill) sizeBefore = length
    super.toPath
  }

  override def exists(): Boolean = {
    val there = super.exists()
    if (!there && isSpill) end(sizeBefore)
    there
  }

  override def renameTo(target: File): Boolean = {
    val size = length
    val renamed = super.renameTo(target)
    if (renamed) bytes.add(size)
    renamed
  }

  override def delete(): Boolean = {
    val size = length
    val deleted = super.delete()
    if (deleted) {
      if (isSpill) end(size)
      else {
        if (sibling) bytes.add(size)
        forget(name, size)
      }
    }
    deleted
  }

  private def isSpill: Boolean = name.temporary && !sibling

  private def end(size: Long): Unit = if (ended.compareAndSet(false, true)) {
    bytes.add(size)
    forget(name, size)
  }
}

/**
 * One executor's own directory in memory: files by name, spread over sub-directories.
 *
 * No method throws for a file system's failure: a directory that cannot be used holds no file.
 */
final private[cluster] class MemoryDirectory(val root: File) {
  import MemoryDirectory._

  def file(name: String): File = new File(new File(root, f"${Math.floorMod(name.hashCode, SubDirectories)}%02x"), name)

  /** Return whether a file of that name can probably be created. */
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

  /** The free bytes of its file system, less a reserve for others. */
  def room(): Long = root.getUsableSpace - (root.getTotalSpace / KeptFreePart).min(MostKeptFree)

  private def entries(directory: File): Array[File] = Option(directory.listFiles).getOrElse(Array.empty)
}

private[cluster] object MemoryDirectory {
  private val SubDirectories = 64
  private val KeptFreePart = 20
  private val MostKeptFree = 256L << 20
}

/** Recognises task failures by lack of memory, from the text alone: Java reports no error number. */
private[cluster] object MemoryFailure {

  private val OutOfRoom = Seq("No space left on device", "Disk quota exceeded", "Cannot allocate memory")

  /**
   * The reason that a failure's stack trace gives, if any. A full disk is taken for full memory, since an open file has
   * no path in the message; the application lacks disk space in any case.
   */
  def of(stackTrace: String, directory: String): Option[String] =
    OutOfRoom.find(stackTrace.contains(_)).map(error => s"a task failed by “$error”").orElse {
      Option.when(stackTrace.contains(directory))(s"a task failed to use $directory")
    }
}
