package io.penstock.fs.cache

import java.nio.channels.FileChannel
import java.nio.file.{NoSuchFileException, StandardOpenOption}

import scala.annotation.tailrec
import scala.util.Using

import io.penstock.fs.metrics.Counters

/**
 * Which page goes when one must, and for whom: a clock with frequencies.
 *
 * A hand sweeps the slots. A page that was not found since it came is worth nothing. One that was found is worth 1 to
 * 3, and loses one only after [[DecayAfter]] seconds without being found: what is in use is forgotten with time, not
 * with pressure, however long the scan.
 *
 * A newcomer takes the place of what is worth less than itself, which depends on why it comes ([[Cause]]). A scan's
 * page is worth as little as those that an equal scan has left, so it takes their place only once they have had their
 * time: else a scan of more than the tier holds would push out, page by page, what it is going to read again.
 */
private[cache] object EvictionPolicy {

  sealed trait Verdict
  case object Keep extends Verdict
  case object Decay extends Verdict
  case object Evict extends Verdict

  /** Whoever was filling or evicting it has died. */
  case object Reclaim extends Verdict

  /** Finding a page again within these seconds is the same use: a reader that comes back for the next record. */
  val SameUse = 2

  /** Seconds. Long enough to survive the other stages of a job, short enough to follow a change of work. */
  val DecayAfter = 120

  /** Seconds after which a filling or an eviction counts as abandoned: each takes milliseconds. */
  val Abandoned = 60

  /** Pages in use that the hand passes before it takes the least of them. */
  val Candidates = 64

  /** Renewing the stamp of a page in constant use more often than this would cost a write per read. */
  private val RenewAfter = 16

  def judge(word: SlotWord, now: Int, cause: Cause): Verdict = word.state match {
    case SlotWord.Free => Keep
    case SlotWord.Reserved | SlotWord.Evicting => if (word.age(now) > Abandoned) Reclaim else Keep
    case _ if word.frequency == 0 => if (cause == Scanned && word.age(now) <= DecayAfter) Keep else Evict
    case _ => if (word.age(now) > DecayAfter) Decay else Keep
  }

  /** Why a page comes to a tier. */
  sealed trait Cause

  /** Somebody reads this very page. Where everything is in use, it takes the place of the least of [[Candidates]]. */
  case object Read extends Cause

  /** Somebody reads the object from one end to the other, and this page is on the way. */
  case object Scanned extends Cause

  /** Somebody has written it, and then perhaps nobody ever reads it; if somebody does, that is still to come. */
  case object Written extends Cause

  /** What a page is worth when it comes: a written one waits for its first reader as a found one does for the next. */
  def worthAtFirst(cause: Cause): Int = if (cause == Written) 1 else 0

  /** Whether a newcomer takes the least of those in use where nothing is worth less than it. */
  def yieldsToLeast(cause: Cause): Boolean = cause == Read

  /**
   * Whether a page that must leave its tier is worth being written to the next.
   *
   * @param cause
   *   of the page that it makes room for: what is written and not read must not cost a copy of what nobody has read
   *   either
   */
  def isWorthMoving(word: SlotWord, cause: Cause, roomLeft: Boolean): Boolean =
    word.wasHit || (cause != Written && roomLeft)

  /** Which of several present pages goes first: the one worth least. */
  def worth(word: SlotWord, now: Int): Int = (word.frequency << 20) + (SlotWord.MaxAge - word.age(now))

  /** The word of a present page that was just found; the same word if that changes nothing. */
  def found(word: SlotWord, now: Int): SlotWord =
    if (word.frequency == SlotWord.MaxFrequency)
      if (word.age(now) >= RenewAfter) word.found(word.frequency, now) else word
    else if (word.age(now) < SameUse) word
    // What it was kept for has happened: from now on it is as any page that was read once.
    else if (word.isAwaited) word.present(worthAtFirst(Read), now)
    else word.found(word.frequency + 1, now)
}

/**
 * The room that pages take of an opened tier, and who gives theirs up for a newcomer.
 *
 * @param next
 *   where those may go that must leave
 */
private[cache] final class SpaceAllocator(directory: TierDirectory, table: PageTable, next: Option[Tier]) {

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
