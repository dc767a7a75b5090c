package io.penstock.fs.cache

import java.io.IOException
import java.nio.ByteBuffer
import java.nio.file.{Files, NoSuchFileException, Path}

/**
 * Goes through the files of a tier, whatever its table says, while others may be using it.
 *
 * @param clock
 *   milliseconds since the epoch
 */
private[cache] final class TierAudit(directory: TierDirectory, table: PageTable, clock: () => Long) {
  import TierAudit._

  /**
   * Reads every byte, drops what is damaged or belongs to no slot, empties slots whose file is gone, and counts anew.
   *
   * @param dropped
   *   is told of each file
   */
  def verify(dropped: (Path, String) => Unit): Verified = {
    var result = Verified(0, 0, 0, 0, 0)
    for (file <- directory.pageFiles)
      stateOf(file) match {
        case Sound(bytes) => result = result.copy(pages = result.pages + 1, bytes = result.bytes + bytes)
        case Damaged(why) =>
          drop(file)
          dropped(file, why)
          result = result.copy(damaged = result.damaged + 1)
        case Orphan =>
          drop(file)
          dropped(file, "no slot of the page table stands for it")
          result = result.copy(orphans = result.orphans + 1)
        case InWork => ()
      }
    for (key <- table.presentKeys if !Files.exists(directory.pathOf(key))) {
      table.take(key).foreach(table.remove(_, evicted = false))
      result = result.copy(missing = result.missing + 1)
    }
    table.recount()
    result
  }

  /** Drops the pages whose label matches, and files that have none: nobody could read them. */
  def drop(matches: PageLabel => Boolean): Dropped = {
    var result = Dropped(0, 0)
    for (file <- directory.pageFiles)
      try
        if (mapped(file)(PageFile.trailerIn).forall(trailer => matches(trailer.label))) {
          val bytes = Files.size(file)
          drop(file)
          result = Dropped(result.pages + 1, result.bytes + bytes)
        }
      catch { case _: NoSuchFileException => () }
    result
  }

  private def drop(file: Path): Unit = {
    val victim = TierDirectory.keyOf(file).flatMap(table.take(_))
    Files.deleteIfExists(file)
    victim.foreach(table.remove(_, evicted = false))
  }

  private def stateOf(file: Path): State =
    try
      if (isListed(file)) contentOf(file)
      else if (PrivateFiles.modified(file).exists(_ < clock() - EvictionPolicy.Abandoned * 1000L)) Orphan
      else InWork
    catch { case _: NoSuchFileException => InWork }

  private def isListed(file: Path): Boolean =
    TierDirectory.keyOf(file).exists(table.find(_) != PageTable.Nowhere)

  private def contentOf(file: Path): State = mapped(file) { memory =>
    val trailer = PageFile.trailerIn(memory)
    if (!TierDirectory.keyOf(file).contains(trailer.label.key)) Damaged("it holds another page than its name says")
    else {
      val blocks = trailer.checksums.indices.count { block =>
        val from = block * PageFile.ChecksumBlock
        val bytes = new Array[Byte](math.min(PageFile.ChecksumBlock, trailer.length - from))
        memory.get(from, bytes)
        PageFile.checksum(ByteBuffer.wrap(bytes)) != trailer.checksums(block)
      }
      if (blocks == 0) Sound(trailer.length.toLong) else Damaged(s"$blocks of its checksums are wrong")
    }
  } match {
    case Right(state) => state
    case Left(why) => Damaged(why)
  }

  /** Left says how the file is damaged. */
  private def mapped[A](file: Path)(use: ByteBuffer => A): Either[String, A] =
    try {
      val memory = PageFile.map(file)
      try {
        val result = use(memory)
        Faults.surface()
        Right(result)
      } finally Unmapping.unmap(memory)
    } catch {
      case missing: NoSuchFileException => throw missing
      case damage @ (_: IOException | _: InternalError) => Left(damage.getMessage)
    }
}

private[cache] object TierAudit {

  private sealed trait State
  private final case class Sound(bytes: Long) extends State
  private final case class Damaged(why: String) extends State
  private case object Orphan extends State

  /** Being written or removed right now. */
  private case object InWork extends State

  /** Sound pages and their bytes; files and slots that were dropped. */
  final case class Verified(pages: Long, bytes: Long, damaged: Long, orphans: Long, missing: Long)

  /** Files and their bytes. */
  final case class Dropped(pages: Long, bytes: Long)
}
