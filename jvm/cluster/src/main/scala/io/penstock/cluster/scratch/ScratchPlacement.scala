package io.penstock.cluster.scratch

import io.penstock.cluster.scratch.ScratchPlacement._

/**
 * Decides which new scratch files go to memory. Pure: no I/O and no clock.
 *
 * A file's size is unknown when its place is chosen, so the usual size of its kind is reserved. A file counts with the
 * reservation, or with its size where that is larger, until a look finds that it has stopped growing. Complete files
 * and reservations together never exceed the share; only growth beyond the usual size can. A task writes one file at a
 * time, or, in a shuffle of few partitions without sorting, one for each partition.
 *
 * @param share
 *   the most bytes that this process may have in memory
 * @param files
 *   sizes at the last look
 * @param written
 *   files that are being written, or will be, each with the number of looks that found it missing
 * @param room
 *   free bytes of the memory directory's file system at the last look, less its reserve; below zero where others use
 *   the reserve
 * @param usual
 *   recent sizes of files, by kind
 * @param closed
 *   the reason why memory is closed, if it is
 */
final private[scratch] case class ScratchPlacement(
    share: Long,
    files: Map[ScratchName, Long] = Map.empty,
    written: Map[ScratchName, Int] = Map.empty,
    room: Long = Long.MaxValue,
    usual: Map[Kind, Long] = Map.empty,
    closed: Option[String] = None
) {

  private lazy val present: Long = files.valuesIterator.sum

  /** Bytes present and reserved. */
  lazy val committed: Long = present + written.keysIterator.map(stillToCome).sum

  /** The share, at most what the file system has. */
  private lazy val limit: Long = if (room >= share) share else share.min(present + room)

  /** Choose the place of a new file. */
  def place(name: ScratchName): (Decision, ScratchPlacement) = closed match {
    case Some(why) => (Disk(why), this)
    case None if committed + expected(name.kind) > limit => (Disk(full), this)
    case None => (Memory, copy(written = written.updated(name, 0)))
  }

  /** Account for the removal of a file of this size; 0 where it was never written. */
  def gone(name: ScratchName, size: Long): ScratchPlacement = copy(
    files = files - name,
    written = written - name,
    usual = if (written.contains(name) && size > 0) learnt(usual, name.kind, size) else usual
  )

  /** Account for a look: the sizes of all files now, and the free bytes. */
  def looked(sizes: Map[ScratchName, Long], room: Long): ScratchPlacement = {
    val growing = sizes.collect { case (name, size) if !files.get(name).contains(size) => name -> 0 }
    val awaited = written.collect {
      case (name, looks) if !sizes.contains(name) && !files.contains(name) && looks < Patience => name -> (looks + 1)
    }
    val complete = written.keysIterator.filterNot(name => growing.contains(name) || awaited.contains(name))
    copy(
      files = sizes,
      written = growing ++ awaited,
      room = room,
      usual = complete.foldLeft(usual)((known, name) => sizes.get(name).fold(known)(learnt(known, name.kind, _)))
    )
  }

  def close(why: String): ScratchPlacement = if (closed.isEmpty) copy(closed = Some(why)) else this

  private def expected(kind: Kind): Long = usual.getOrElse(kind, 0L).max(kind.smallest)

  private def stillToCome(name: ScratchName): Long = (expected(name.kind) - files.getOrElse(name, 0L)).max(0L)

  private def full: String =
    if (limit < share) "the memory directory's file system is nearly full" else "its budget was used up"

  /** Follow sizes up at once and down slowly: a low reservation overruns the budget, a high one leaves some unused. */
  private def learnt(known: Map[Kind, Long], kind: Kind, size: Long): Map[Kind, Long] = {
    val before = known.getOrElse(kind, 0L)
    known.updated(kind, size.max(before - before / 8))
  }
}

private[scratch] object ScratchPlacement {

  sealed trait Decision
  case object Memory extends Decision
  final case class Disk(why: String) extends Decision

  /** Looks after which the reservation of a file that no task began to write lapses. */
  val Patience = 50
}

/** The purpose of a scratch file. `smallest` is the least reservation for a new one, in bytes. */
sealed abstract class Kind(val smallest: Long)

object Kind {

  /** The output of one map task. */
  case object MapOutput extends Kind(1L << 20)

  /** The offsets of a map output's partitions, and their checksums: eight bytes for each partition. */
  case object MapIndex extends Kind(16L << 10)

  /** Written by a task whose memory is full, or on the way to a map output. */
  case object Spill extends Kind(256L << 10)
}

/**
 * A file of a shuffle or spill, by its final name: Spark writes a map output beside its place and renames it.
 *
 * @param temporary
 *   true where the task that wrote it removes it, and no other process knows it
 */
final case class ScratchName private (text: String, kind: Kind, temporary: Boolean)

object ScratchName {

  // Spark's own temporary sibling of a file: its name and a random UUID.
  private val Sibling = """\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$""".r
  private val MapFile = """shuffle_\d+_\d+_\d+\.(data|index|checksum\.\w+)""".r

  /**
   * Parse a file's name; None for blocks that an application persists, and broadcasts. Those stay as long as the
   * application wants, and would take the memory from files that are written and read once.
   */
  def parse(fileName: String): Option[ScratchName] = Sibling.replaceFirstIn(fileName, "") match {
    case name @ MapFile("data") => Some(ScratchName(name, Kind.MapOutput, temporary = false))
    case name @ MapFile(_) => Some(ScratchName(name, Kind.MapIndex, temporary = false))
    case name if name.startsWith("temp_shuffle_") || name.startsWith("temp_local_") =>
      Some(ScratchName(name, Kind.Spill, temporary = true))
    case _ => None
  }
}
