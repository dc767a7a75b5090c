package io.penstock.fs.cache

import java.nio.channels.FileChannel
import java.nio.file.{NoSuchFileException, StandardOpenOption}

import scala.annotation.tailrec
import scala.util.Using

import io.penstock.fs.Counters

/**
 * The room that pages take of an opened tier, and who gives theirs up for a newcomer.
 *
 * @param next
 *   where those may go that must leave
 */
private[cache] final class Room(directory: TierDirectory, table: PageTable, next: Option[Tier]) {

  /**
   * Charges the blocks, after evicting as many pages as that takes.
   *
   * @param cause
   *   why the newcomer comes
   */
  def charge(blocks: Int, cause: EvictionPolicy.Cause): Boolean = {
    @tailrec def again(recounted: Boolean): Boolean =
      if (table.charge(blocks)) true
      // Whoever made the budget smaller did not ask what the pages are worth.
      else if (evictOne(if (table.isOverfull) EvictionPolicy.Read else cause)) again(recounted)
      else if (recounted || (table.status.pages > 0 && !EvictionPolicy.yieldsToLeast(cause))) false
      else {
        // Nothing to evict, yet no room: either the budget is too small, or dead processes never gave back theirs.
        table.recount()
        again(recounted = true)
      }
    blocks.toLong * SlotWord.BlockSize <= table.budget && again(recounted = false)
  }

  /** A slot for a page whose blocks are charged. */
  def reserve(key: PageKey, blocks: Int, cause: EvictionPolicy.Cause): PageTable.Reservation =
    table.reserve(key, blocks) match {
      case PageTable.NoRoom if evict(table.victimNear(key, cause), cause) => table.reserve(key, blocks)
      case reservation => reservation
    }

  def evictOne(cause: EvictionPolicy.Cause): Boolean = evict(table.victim(cause), cause)

  private def evict(victim: Option[PageTable.Victim], cause: EvictionPolicy.Cause): Boolean = {
    for (page <- victim) {
      if (page.whole && !next.exists(move(page, _, cause))) Counters.PagesEvicted.increment()
      directory.delete(page.key)
      table.remove(page, evicted = page.whole)
    }
    victim.nonEmpty
  }

  /** Gives a page that leaves this tier to the next one, if that wants it. */
  private def move(page: PageTable.Victim, to: Tier, cause: EvictionPolicy.Cause): Boolean =
    to.wants(page.word, cause) && {
      try
        Using.resource(FileChannel.open(directory.pathOf(page.key), StandardOpenOption.READ)) { file =>
          to.adopt(page.key, file)
        }
      catch { case _: NoSuchFileException => false }
    }
}
