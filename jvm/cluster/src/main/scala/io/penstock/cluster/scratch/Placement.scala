package io.penstock.cluster.scratch

import io.penstock.cluster.scratch.Placement._

/**
 * Which new scratch files go to memory: pure, no I/O and no clock.
 *
 * A file's size is unknown when its place is chosen, so room is set aside for it: what a file of its kind usually
 * needs. It counts with that, or with its size where that is more, until a look finds that it has stopped growing. So
 * what is complete and what is set aside never exceed the share together. What can exceed it is only what files grow
 * beyond the usual after they were begun. A task writes one file at a time, or, in a shuffle of few partitions without
 * sorting, one for each partition.
 *
 * @param share
 *   the most that this process may have in memory, in bytes
 * @param files
 *   sizes at the last look
 * @param written
 *   files that are being written, or will be, each with how many looks it is awaited
 * @param room
 *   what the memory directory's file system could take in addition at the last look; below zero where others use what
 *   is to be kept free
 * @param usual
 *   what files of a kind have lately needed
 * @param closed
 *   why nothing goes to memory any more
 */
final private[scratch] case class Placement(
    share: Long,
    files: Map[ScratchName, Long] = Map.empty,
    written: Map[ScratchName, Int] = Map.empty,
    room: Long = Long.MaxValue,
    usual: Map[Kind, Long] = Map.empty,
    closed: Option[String] = None
) {

  private lazy val present: Long = files.valuesIterator.sum

  /** Bytes that are there, and those that are set aside. */
  lazy val committed: Long = present + written.keysIterator.map(stillToCome).sum

  /** The share, and never more than the file system has. */
  private lazy val limit: Long = if (room >= share) share else share.min(present + room)

  /** Where a new file is to be written. */
  def place(name: ScratchName): (Decision, Placement) = closed match {
    case Some(why) => (Disk(why), this)
    case None if committed + expected(name.kind) > limit => (Disk(full), this)
    case None => (Memory, copy(written = written.updated(name, 0)))
  }

  /** The file was removed when it had this size; 0 where it was never written. */
  def gone(name: ScratchName, size: Long): Placement = copy(
    files = files - name,
    written = written - name,
    usual = if (written.contains(name)) learnt(usual, name.kind, size) else usual
  )

  /** The sizes of all files now, and what the file system could still take. */
  def looked(sizes: Map[ScratchName, Long], room: Long): Placement = {
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

  def close(why: String): Placement = if (closed.isEmpty) copy(closed = Some(why)) else this

  private def expected(kind: Kind): Long = usual.getOrElse(kind, 0L).max(kind.smallest)

  private def stillToCome(name: ScratchName): Long = (expected(name.kind) - files.getOrElse(name, 0L)).max(0L)

  private def full: String =
    if (limit < share) "the memory directory's file system is nearly full" else "its budget was used up"

  /** At once up, slowly down: too little set aside overruns the budget, too much leaves some of it unused. */
  private def learnt(known: Map[Kind, Long], kind: Kind, size: Long): Map[Kind, Long] = {
    val before = known.getOrElse(kind, 0L)
    known.updated(kind, size.max(before - before / 8))
  }
}

private[scratch] object Placement {

  sealed trait Decision
  case object Memory extends Decision
  final case class Disk(why: String) extends Decision

  /** Looks after which the room of a file that nobody began to write is given to others. */
  val Patience = 50
}
