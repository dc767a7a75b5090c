package io.penstock.fs.cache

import java.io.{IOException, UncheckedIOException}
import java.nio.ByteBuffer
import java.nio.channels.{ClosedByInterruptException, FileChannel}
import java.nio.file.NoSuchFileException
import java.util.concurrent.atomic.AtomicBoolean

import org.slf4j.LoggerFactory

import io.penstock.fs.metrics.Counters

/**
 * One tier: pages on one medium, within a budget.
 *
 * A failure of the medium never gets out: the tier counts as empty and takes nothing for a while, then is opened again.
 *
 * @param next
 *   where pages go that must leave this tier, as far as [[EvictionPolicy.isWorthMoving]]
 * @param costs
 *   by which it leaves pages to the store; none if it never does
 * @param restMs
 *   how long a tier is left alone that failed
 */
private[cache] final class Tier(
    val settings: TierSettings,
    next: Option[Tier],
    val costs: Option[TierCosts],
    clock: () => Int,
    restMs: Long
) {
  import Tier._

  private final class Opened(val directory: TierDirectory, val table: PageTable) {
    val space = new SpaceAllocator(directory, table, next)
    lazy val touches = new Touches(directory.touches, clock)
  }

  @volatile private var opened: Opened = _
  @volatile private var restsUntil = System.nanoTime
  private val warned = new AtomicBoolean
  private val toldOfCosts = new AtomicBoolean

  /** Whether it works and has room for a page at all. */
  def keeps: Boolean = attempt(false)(_.table.budget >= settings.pageSize)

  /** Through which processes agree who fetches a page. */
  def locks: Option[LockFile] = Option(ready()).map(_.directory.locks)

  def has(key: PageKey): Boolean = attempt(false)(_.table.find(key) != PageTable.Nowhere)

  def holds(slot: Int, key: PageKey): Boolean = attempt(false)(_.table.holds(slot, key))

  /** Notes that a mapped page was found; false if it is no longer there. */
  def touch(slot: Int, key: PageKey): Boolean = attempt(false)(_.table.touch(slot, key))

  /** Maps a page, pinned once; null if it is not there. A file that is not this page whole is dropped. */
  def map(key: PageKey, label: PageLabel): MappedPage = attempt[MappedPage](null) { tier =>
    val slot = tier.table.find(key)
    if (slot == PageTable.Nowhere) null
    else
      try {
        val page = mapFile(tier, key, slot, label)
        tier.table.touch(slot, key)
        page
      } catch {
        case missing: NoSuchFileException =>
          if (!tier.directory.isCurrent) throw missing
          remove(tier, tier.table.take(slot, key))
          null
        case damage: PageFile.Damaged =>
          log.debug("{}: {}: {}", settings.name, label, damage.getMessage)
          Counters.PagesDamaged.increment()
          remove(tier, tier.table.take(slot, key))
          null
      }
  }

  private def mapFile(tier: Opened, key: PageKey, slot: Int, label: PageLabel): MappedPage = {
    val file = PageFile.map(tier.directory.pathOf(key))
    try {
      val trailer = PageFile.trailerIn(file)
      if (trailer.label != label || trailer.length != label.length) throw new PageFile.Damaged("another page's file")
      new MappedPage(key, this, slot, file, trailer.length, trailer.checksums)
    } catch {
      case failure: Throwable =>
        Unmapping.unmap(file)
        throw failure
    }
  }

  /** Keeps a page. */
  def insert(key: PageKey, label: PageLabel, data: ByteBuffer, cause: EvictionPolicy.Cause): Outcome =
    if (!keeps || (cause == EvictionPolicy.Scanned && !takesNext)) Refused
    else {
      // Its checksums are only taken where there is room for the page.
      lazy val trailer = PageFile.trailerOf(label, data)
      val bytes = data.remaining.toLong + PageFile.trailerSize(label)
      insert(key, bytes, cause)(PageFile.write(_, data, trailer.duplicate()))
    }

  /** Bytes that are free, or whose pages have had their time, as far as is known without making space. */
  def room: Long = if (adaptiveCosts.forall(_.pays)) attempt(0L)(_.table.roomFor(EvictionPolicy.Scanned)) else 0

  /** How often the page was read without being kept. */
  def touches(of: ObjectVersion, index: Long): Int =
    attempt(0)(_.touches.of(entryOf(of, index), (index % Touches.PagesOfEntry).toInt))

  /** The page was read without being kept. */
  def touched(of: ObjectVersion, index: Long): Unit =
    attempt(())(_.touches.add(entryOf(of, index), (index % Touches.PagesOfEntry).toInt))

  private def entryOf(of: ObjectVersion, index: Long): PageKey =
    of.page(index / Touches.PagesOfEntry, settings.pageSize)

  /** The costs of a tier that leaves pages to the store; reads from another one need not be timed. */
  private[cache] val adaptiveCosts: Option[TierCosts] = costs.filter(_ => settings.adaptive)

  private def takesNext: Boolean = adaptiveCosts.forall { costs =>
    if (!costs.pays && toldOfCosts.compareAndSet(false, true))
      log.info(
        s"The page cache's ${settings.name} tier in ${settings.directory} costs more than it saves, the store is as " +
          s"near ($costs). Until that changes it takes no pages of scans, nor what memory gives up; this is said once."
      )
    costs.takesNext()
  }

  /**
   * Gives a page that is here another name, without moving its bytes.
   *
   * @return
   *   whether it is here under the new name; under the old one it is gone if it was here
   */
  def rename(from: PageLabel, to: PageLabel): Boolean = attempt(false) { tier =>
    tier.table.take(from.key).exists { page =>
      var moved = false
      try
        checksumsOf(tier, page, from, to).exists { checksums =>
          val trailer = PageFile.trailerOf(to, checksums)
          moved = true
          fill(tier, to.key, to.length.toLong + trailer.remaining, EvictionPolicy.Written, had = page.word.blocks) { _ =>
            tier.directory.rename(page.key, to.key)(PageFile.replaceTrailer(_, to.length, trailer))
          } == Kept
        }
      catch { case _: NoSuchFileException | _: PageFile.Damaged => false }
      finally {
        tier.directory.delete(page.key)
        if (moved) tier.table.vacate(page) else tier.table.remove(page, evicted = false)
      }
    }
  }

  /** None where the file is not the one page's, or is too long or too short to be the other's. */
  private def checksumsOf(tier: Opened, page: PageTable.Victim, from: PageLabel, to: PageLabel): Option[Array[Int]] =
    Option
      .when(page.whole) {
        val file = PageFile.map(tier.directory.pathOf(page.key))
        try PageFile.trailerIn(file)
        finally Unmapping.unmap(file)
      }
      .collect { case trailer if trailer.label == from && trailer.length == to.length => trailer.checksums }

  private def insert(key: PageKey, bytes: Long, cause: EvictionPolicy.Cause)(write: FileChannel => Unit): Outcome =
    attempt[Outcome](Refused)(tier => fill(tier, key, bytes, cause)(create(tier, key, _, cause, write)))

  /**
   * Takes room and a slot for a page, for as long as `make`, which receives its number of blocks, takes to put its file
   * in place.
   *
   * @param had
   *   blocks that are charged for the page already; whatever becomes of it, they are no longer the caller's
   */
  private def fill(tier: Opened, key: PageKey, bytes: Long, cause: EvictionPolicy.Cause, had: Int = 0)(
      make: Int => Unit
  ): Outcome = {
    val blocks = SlotWord.blocksOf(bytes)
    def refused(outcome: Outcome, charged: Int): Outcome = {
      tier.table.discharge(charged)
      outcome
    }
    if (tier.table.find(key) != PageTable.Nowhere) refused(AlreadyThere, had)
    else if (!tier.space.charge(blocks - had, cause)) refused(Refused, had)
    else
      tier.space.reserve(key, blocks, cause) match {
        case reserved: PageTable.Reserved =>
          try {
            make(blocks)
            if (tier.table.confirm(reserved, cause)) Kept
            else {
              // It took so long that the slot was given up: no slot would stand for the file.
              if (tier.table.find(key) == PageTable.Nowhere) tier.directory.delete(key)
              Refused
            }
          } catch {
            case failure: Throwable =>
              tier.table.cancel(reserved)
              if (failure.isInstanceOf[IOException] && isFull(tier, reserved.word.bytes)) Refused else throw failure
          }
        case PageTable.Known => refused(AlreadyThere, blocks)
        case PageTable.NoRoom => refused(Refused, blocks)
      }
  }

  /** Writes the file; a file system that is full before the budget is gets some of its space back first. */
  private def create(
      tier: Opened,
      key: PageKey,
      blocks: Int,
      cause: EvictionPolicy.Cause,
      write: FileChannel => Unit
  ): Unit =
    try {
      def created(): Unit = tier.directory.create(key)(write)
      costs.fold(created())(_.writing(blocks.toLong * SlotWord.BlockSize)(created()))
    } catch {
      case full: IOException if isFull(tier, blocks.toLong * SlotWord.BlockSize) =>
        if ((1 to VictimsWhenFull).count(_ => tier.space.evictOne(cause)) == 0) throw full
        tier.directory.create(key)(write)
    }

  private def isFull(tier: Opened, bytes: Long): Boolean =
    try tier.directory.free < 2 * bytes
    catch { case _: IOException => false }

  /** Whether a page that another tier has no more room for is to come here. */
  def wants(page: SlotWord, cause: EvictionPolicy.Cause): Boolean = attempt(false) { tier =>
    EvictionPolicy.isWorthMoving(page, cause, roomLeft = tier.table.status.used + page.bytes <= tier.table.budget) &&
    takesNext
  }

  /** Keeps a copy of another tier's page file as it is. */
  def adopt(key: PageKey, file: FileChannel): Boolean = {
    val outcome = insert(key, file.size(), EvictionPolicy.Read) { to =>
      var position = 0L
      while (position < file.size()) position += file.transferTo(position, file.size() - position, to)
    }
    if (outcome == Kept) Counters.PagesDemoted.increment()
    outcome != Refused
  }

  def forget(key: PageKey): Unit = attempt(())(tier => remove(tier, tier.table.take(key)))

  /** Drops a page whose bytes turned out to be wrong. */
  def damaged(page: MappedPage): Unit = {
    Counters.PagesDamaged.increment()
    attempt(())(tier => remove(tier, tier.table.take(page.slot, page.key)))
  }

  private def remove(tier: Opened, victim: Option[PageTable.Victim]): Unit = for (page <- victim) {
    tier.directory.delete(page.key)
    tier.table.remove(page, evicted = false)
  }

  /** Housekeeping that nobody should wait for: leftovers of dead processes, and whether the directory is still ours. */
  def tidy(): Unit = attempt(()) { tier =>
    if (!tier.directory.isCurrent) throw new NoSuchFileException(settings.directory.toString)
    tier.directory.tidy()
  }

  private def attempt[A](otherwise: => A)(body: Opened => A): A = {
    val tier = ready()
    if (tier == null) otherwise
    else
      try {
        val result = body(tier)
        Faults.surface()
        result
      } catch {
        // The thread is being stopped, which says nothing about the tier.
        case _: ClosedByInterruptException => otherwise
        case failure @ (_: IOException | _: UncheckedIOException | _: InternalError | _: SecurityException) =>
          rest(failure)
          otherwise
      }
  }

  /** The opened tier, or null while it rests. */
  private def ready(): Opened = {
    val current = opened
    if (current != null && current.table.isDropped) leave(current)
    else if (current != null || System.nanoTime - restsUntil < 0) current
    else open()
  }

  /** What was dropped from outside is a failure of nothing: what is there now is opened at once. */
  private def leave(dropped: Opened): Opened = synchronized {
    if (opened eq dropped) opened = null
    open()
  }

  private def open(): Opened = synchronized {
    if (opened == null && System.nanoTime - restsUntil >= 0)
      try {
        val directory =
          TierDirectory.open(settings.directory, PageTable.slotsFor(settings.budget(used = 0), settings.pageSize))
        val table = new PageTable(directory.words, clock)
        table.budget = settings.budget(table.status.used)
        opened = new Opened(directory, table)
      } catch {
        case _: ClosedByInterruptException => ()
        case failure @ (_: IOException | _: UncheckedIOException | _: InternalError | _: RuntimeException) =>
          rest(failure)
      }
    opened
  }

  private def rest(failure: Throwable): Unit = synchronized {
    opened = null
    restsUntil = System.nanoTime + restMs * 1000000L
    if (warned.compareAndSet(false, true))
      log.warn(
        s"The page cache's ${settings.name} tier in ${settings.directory} does not work: $failure. " +
          "Reads that it would have served go to the store, or to the other tier. It is tried again from time to time; " +
          "this is said once. Free some space, or give it another directory or size 0."
      )
    else log.debug("the {} tier failed again", settings.name, failure)
  }
}

private[cache] object Tier {

  private val log = LoggerFactory.getLogger(classOf[Tier])

  val RestMs = 30000L

  /** How many pages make room on a full file system: more than one, since others fill it too. */
  private val VictimsWhenFull = 4

  sealed trait Outcome
  case object Kept extends Outcome
  case object AlreadyThere extends Outcome
  case object Refused extends Outcome
}
