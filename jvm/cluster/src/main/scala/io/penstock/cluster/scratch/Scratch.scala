package io.penstock.cluster.scratch

import java.io.{File, IOException}
import java.nio.file.{Files, Path}
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.{AtomicReference, LongAdder}

import org.slf4j.LoggerFactory

import io.penstock.cluster.scratch.Scratch._

/**
 * Where one executor's shuffle and spill files are: in memory while its share of the budget lasts, else on disk.
 *
 * Where a file is, is asked of the file systems, so nothing is remembered of a file that exists. Between choosing a
 * place and the file's being there the choice stands: a file is written beside its place and renamed, which no file
 * system does to another.
 *
 * A file in memory that others may read has a symbolic link in its place on disk: executors of one host read each
 * other's map outputs, and look for them where Spark's own rule says.
 *
 * @param share
 *   the most to have in memory, in bytes
 * @param onDisk
 *   where a file of that name is on disk
 * @param closed
 *   exists once memory has failed any executor of the application; says why
 */
final class Scratch private[cluster] (
    memory: MemoryDirectory,
    share: Long,
    onDisk: String => File,
    closed: Path,
    nanoTime: () => Long = () => System.nanoTime
) {

  private var placement = Placement(share)
  private val chosen = new ConcurrentHashMap[ScratchName, Placement.Decision]
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

  /** A file whose name nobody else will ask for. */
  def newFile(name: ScratchName): File = as(name, choose(name))

  /** The temporary sibling that will be renamed to `target`, which `file` gave out. */
  def sibling(target: File, temporary: File): File = target match {
    case placed: ScratchFile => placed.sibling(temporary)
    case _ => temporary
  }

  /** Memory cannot be written: no executor of the application is to try again. */
  def close(why: String): Unit = {
    log.warn(s"Shuffle and spill go to disk from now on: $why")
    synchronized { placement = placement.close(why) }
    try Files.writeString(closed, why)
    catch { case problem: IOException => log.warn(s"Other executors are not told: $closed cannot be written", problem) }
  }

  def reading(): Reading = Reading(memoryBytes.sum, diskBytes.sum, fellOver.get)

  private def found(name: ScratchName, file: File, bytes: LongAdder): File = {
    chosen.remove(name)
    new ScratchFile(name, file, bytes, forget)
  }

  private def as(name: ScratchName, decision: Placement.Decision): File = decision match {
    case Placement.Memory => new ScratchFile(name, memory.file(name.text), memoryBytes, forget)
    case Placement.Disk(_) => new ScratchFile(name, onDisk(name.text), diskBytes, forget)
  }

  private def choose(name: ScratchName): Placement.Decision = {
    val decision = decide(name)
    decision match {
      case Placement.Disk(why) => if (fellOver.compareAndSet("", why)) log.info(s"Shuffle and spill go to disk: $why")
      case Placement.Memory => if (!name.temporary) link(name)
    }
    decision
  }

  private def decide(name: ScratchName): Placement.Decision = synchronized {
    if (placement.closed.isEmpty) {
      if (Files.exists(closed)) placement = placement.close(Files.readString(closed))
      else if (!memory.ready(name.text)) close(s"${memory.root} cannot be written")
    }
    look()
    val (decision, next) = placement.place(name)
    placement = next
    decision
  }

  /** Who asks for a place pays for the look, so that an executor that writes nothing costs nothing. */
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

  /** An application of many shuffles would leave a link for each of their files. */
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
   * A look that takes long is taken the more rarely, so that looking takes no more than a twentieth of a task's time.
   */
  private val MostOfTime = 20L

  /**
   * What went where so far, in bytes, as sums that only grow; a file counts when it is complete or removed. `fellOver`
   * says why the first file went to disk, and is empty where none did.
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
