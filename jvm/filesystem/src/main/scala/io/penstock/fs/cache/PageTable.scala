package io.penstock.fs.cache

import java.lang.invoke.{MethodHandles, VarHandle}
import java.nio.{ByteBuffer, ByteOrder}

import scala.annotation.tailrec

/**
 * Which pages a tier holds: a hash table in memory that all processes of the node share, and the only thing they agree
 * through. No lock: every change is one atomic instruction on a slot's word. No I/O either: who takes a slot does what
 * the slot stands for (writes the file, removes it) and then says so.
 *
 * A process that dies leaves at worst a slot that is reserved or being evicted, which the hand reclaims by its age, and
 * counts that are off by one page, which [[recount]] corrects.
 *
 * @param clock
 *   seconds, the same for all processes
 */
private[cache] final class PageTable(words: SharedWords, clock: () => Int) {
  import PageTable._

  private val slots: Int = (words.size - HeaderSize) / SlotSize

  /** Bytes that pages may take. The last process that opened the table decides. */
  def budget: Long = words.get(BudgetAt)
  def budget_=(bytes: Long): Unit = words.set(BudgetAt, bytes)

  /** Whether all of it was dropped, by whoever took the table out of its directory. */
  def isDropped: Boolean = words.get(MagicAt) != Magic

  def status: Status =
    Status(budget, words.get(UsedAt), words.get(PagesAt), words.get(EvictionsAt), slots)

  /** The slot of a page that is there, or [[Nowhere]]. */
  def find(key: PageKey): Int = {
    val first = home(key)
    @tailrec def probe(step: Int): Int =
      if (step == Window) Nowhere
      else {
        val slot = slotAfter(first, step)
        val word = wordOf(slot)
        if (word.isPresent && keyIs(slot, key) && wordOf(slot).isPresent) slot
        else if (word.isUntouched) Nowhere
        else probe(step + 1)
      }
    probe(0)
  }

  def holds(slot: Int, key: PageKey): Boolean = wordOf(slot).isPresent && keyIs(slot, key)

  /** Notes that a page was found; false if the slot no longer holds it. */
  def touch(slot: Int, key: PageKey): Boolean = {
    val word = wordOf(slot)
    word.isPresent && keyIs(slot, key) && {
      val touched = EvictionPolicy.found(word, clock())
      // Losing this race loses one count of a popular page.
      if (touched.bits != word.bits) change(slot, word, touched)
      true
    }
  }

  /** Whether pages take more than they may, as after the budget was made smaller. */
  def isOverfull: Boolean = words.get(UsedAt) > budget

  /** Takes the bytes out of the budget; false, and nothing taken, if they are not there. */
  def charge(blocks: Int): Boolean = {
    val bytes = blocks.toLong * SlotWord.BlockSize
    (words.add(UsedAt, bytes) <= budget) || {
      words.add(UsedAt, -bytes)
      false
    }
  }

  /** Gives back bytes for which no slot was found after all. */
  def discharge(blocks: Int): Unit = words.add(UsedAt, -blocks.toLong * SlotWord.BlockSize): Unit

  /** A slot for a page about to be written, whose bytes are charged already. */
  def reserve(key: PageKey, blocks: Int): Reservation = {
    val first = home(key)
    @tailrec def probe(step: Int, tries: Int): Reservation =
      if (step == Window) NoRoom
      else {
        val slot = slotAfter(first, step)
        val word = wordOf(slot)
        if (word.state != SlotWord.Free) probe(step + 1, tries)
        else {
          val mine = word.reserved(blocks, clock())
          if (change(slot, word, mine)) {
            words.set(offset(slot), key.high)
            words.set(offset(slot) + 8, key.low)
            Reserved(slot, mine)
          } else probe(step, tries + 1)
        }
      }
    if (known(key, Nowhere)) Known
    else
      probe(0, 0) match {
        // Two that reserve the same page at once both see the other here, or one of them does: never two slots of a page.
        case Reserved(slot, word) if known(key, slot) =>
          change(slot, word, word.free)
          Known
        case reservation => reservation
      }
  }

  /** The reserved page is in place. False if it took so long that the slot was reclaimed. */
  def confirm(reserved: Reserved, cause: EvictionPolicy.Cause): Boolean =
    change(reserved.slot, reserved.word, reserved.word.present(EvictionPolicy.worthAtFirst(cause), clock())) && {
      words.add(PagesAt, 1)
      true
    }

  /** Ends a reservation that came to nothing; gives its bytes back. */
  def cancel(reserved: Reserved): Unit =
    if (change(reserved.slot, reserved.word, reserved.word.free)) discharge(reserved.word.blocks)

  /**
   * The page that should go next for a newcomer, wherever it is; none if there is none. The caller removes its file,
   * then `remove`s it.
   */
  def victim(cause: EvictionPolicy.Cause): Option[Victim] =
    leastOf(cause, slots, () => Math.floorMod(words.add(HandAt, 1) - 1, slots.toLong).toInt)

  /** As [[victim]], among those that stand where `key` could. */
  def victimNear(key: PageKey, cause: EvictionPolicy.Cause): Option[Victim] = {
    var step = -1
    leastOf(cause, Window, () => { step += 1; slotAfter(home(key), step) })
  }

  /** Bytes that are free, or would be given up for a newcomer, as far as those tell that the hand meets next. */
  def roomFor(cause: EvictionPolicy.Cause): Long = {
    val now = clock()
    val hand = Math.floorMod(words.get(HandAt), slots.toLong).toInt
    val near = math.min(slots, EvictionPolicy.Candidates * SlotsPerPage)
    val next = Iterator.range(0, near).map(step => wordOf(slotAfter(hand, step))).filter(_.isPresent)
    val sample = next.take(EvictionPolicy.Candidates).toVector
    val yielding = sample.count(EvictionPolicy.judge(_, now, cause) == EvictionPolicy.Evict)
    val used = words.get(UsedAt)
    math.max(0, budget - used) + (if (yielding == 0) 0 else used / sample.size * yielding)
  }

  /** The page as a victim, if it is there. */
  def take(key: PageKey): Option[Victim] = {
    val slot = find(key)
    if (slot == Nowhere) None else take(slot, key)
  }

  def take(slot: Int, key: PageKey): Option[Victim] = {
    val word = wordOf(slot)
    if (word.isPresent && keyIs(slot, key)) take(slot, word) else None
  }

  /** The victim's file is gone: its bytes are free. */
  def remove(victim: Victim, evicted: Boolean): Unit =
    if (change(victim.slot, victim.word, victim.word.free)) {
      discharge(victim.word.blocks)
      if (evicted) words.add(EvictionsAt, 1): Unit
    }

  /** As [[remove]], where what the victim was charged for is another slot's now. */
  def vacate(victim: Victim): Unit = change(victim.slot, victim.word, victim.word.free): Unit

  /** Counts used bytes and pages anew, slot by slot; what others do meanwhile may be missed or counted twice. */
  def recount(): Unit = {
    var used = 0L
    var pages = 0L
    for (slot <- 0 until slots) {
      val word = wordOf(slot)
      used += (if (word.state == SlotWord.Free) 0 else word.bytes)
      pages += (if (word.isPresent) 1 else 0)
    }
    words.set(UsedAt, used)
    words.set(PagesAt, pages)
  }

  def presentKeys: Iterator[PageKey] =
    Iterator.range(0, slots).filter(wordOf(_).isPresent).map(keyOf)

  private def leastOf(cause: EvictionPolicy.Cause, limit: Int, next: () => Int): Option[Victim] = {
    val now = clock()
    var leastSlot = Nowhere
    var leastWord = new SlotWord(0)
    var passed = 0
    var candidates = 0
    var taken: Option[Victim] = None
    while (taken.isEmpty && passed < limit && candidates < EvictionPolicy.Candidates) {
      val slot = next()
      val word = wordOf(slot)
      EvictionPolicy.judge(word, now, cause) match {
        case EvictionPolicy.Evict | EvictionPolicy.Reclaim => taken = take(slot, word)
        case EvictionPolicy.Decay => change(slot, word, word.decayed(now))
        case EvictionPolicy.Keep =>
          if (word.isPresent) {
            candidates += 1
            if (leastSlot == Nowhere || EvictionPolicy.worth(word, now) < EvictionPolicy.worth(leastWord, now)) {
              leastSlot = slot
              leastWord = word
            }
          }
      }
      passed += 1
    }
    if (taken.isEmpty && leastSlot != Nowhere && EvictionPolicy.yieldsToLeast(cause)) take(leastSlot, leastWord)
    else taken
  }

  private def take(slot: Int, word: SlotWord): Option[Victim] = {
    val key = keyOf(slot)
    val mine = word.evicting(clock())
    if (!change(slot, word, mine)) None
    else {
      if (word.isPresent) words.add(PagesAt, -1)
      Some(Victim(slot, key, mine, whole = word.isPresent))
    }
  }

  /** Whether any slot but `but` stands for the page, present or not. */
  private def known(key: PageKey, but: Int): Boolean = {
    val first = home(key)
    @tailrec def probe(step: Int): Boolean =
      step < Window && {
        val slot = slotAfter(first, step)
        val word = wordOf(slot)
        if (slot != but && word.state != SlotWord.Free && keyIs(slot, key)) true
        else !word.isUntouched && probe(step + 1)
      }
    probe(0)
  }

  private def home(key: PageKey): Int = Math.floorMod(key.low, slots.toLong).toInt

  private def slotAfter(first: Int, step: Int): Int = {
    val slot = first + step
    if (slot >= slots) slot - slots else slot
  }

  private def offset(slot: Int): Int = HeaderSize + slot * SlotSize

  private def wordOf(slot: Int): SlotWord = new SlotWord(words.get(offset(slot) + 16))

  private def keyOf(slot: Int): PageKey = PageKey(words.get(offset(slot)), words.get(offset(slot) + 8))

  private def keyIs(slot: Int, key: PageKey): Boolean =
    words.get(offset(slot)) == key.high && words.get(offset(slot) + 8) == key.low

  private def change(slot: Int, from: SlotWord, to: SlotWord): Boolean =
    words.compareAndSet(offset(slot) + 16, from.bits, to.bits)
}

private[cache] object PageTable {

  /** Says what the file is and in which version; another one is another layout. */
  val Magic = 0x50454e53544b3031L // PENSTK01

  val HeaderSize = 4096
  val SlotSize = 32
  val Window = 32
  val Nowhere: Int = -1

  // One cache line each: processes that change one count do not disturb those that read another.
  private val MagicAt = 0
  private val SlotsAt = 8
  private val BudgetAt = 64
  private val UsedAt = 128
  private val PagesAt = 192
  private val HandAt = 256
  private val EvictionsAt = 320

  /** The most that one mapping can hold. */
  private val MaxSlots = (Int.MaxValue - HeaderSize) / SlotSize

  private val SlotsPerPage = 16

  /** Enough slots for pages of 1/16 of the page size on average, since many objects are small. */
  def slotsFor(budget: Long, pageSize: Int): Int =
    math
      .max(4L * Window, math.min(MaxSlots.toLong, budget / math.max(SlotWord.BlockSize, pageSize / SlotsPerPage)))
      .toInt

  def fileSize(slots: Int): Long = HeaderSize + slots.toLong * SlotSize

  /** Writes the header of an empty table into memory of zeros. */
  def format(words: SharedWords): Unit = {
    words.set(SlotsAt, (words.size - HeaderSize) / SlotSize)
    words.set(MagicAt, Magic)
  }

  def isFormatted(words: SharedWords): Boolean =
    words.size >= fileSize(Window) && words.get(MagicAt) == Magic && fileSize(words.get(SlotsAt).toInt) == words.size

  /** Bytes and counts; `used` includes pages that are being written or removed. */
  final case class Status(budget: Long, used: Long, pages: Long, evictions: Long, slots: Int)

  sealed trait Reservation
  final case class Reserved(slot: Int, word: SlotWord) extends Reservation

  /** The page is there, or somebody is bringing or removing it. */
  case object Known extends Reservation

  /** No free slot where the page could stand. */
  case object NoRoom extends Reservation

  /** A slot its taker alone may empty; `whole` if it held a page, not what a dead process left of one. */
  final case class Victim(slot: Int, key: PageKey, word: SlotWord, whole: Boolean)
}

/**
 * What the page table knows of one slot besides its key, in one word, so that one atomic instruction changes all of it.
 *
 * The version grows with every reservation: a word that was read is never mistaken for the same bits of a later tenant.
 * Ages are in seconds and wrap after twelve days, which at worst lets a page look younger than it is.
 */
private[cache] final class SlotWord(val bits: Long) extends AnyVal {
  import SlotWord._

  def state: Int = (bits & 3).toInt
  def isPresent: Boolean = state == Present

  /** Nobody has ever used the slot, so no probe went past it. */
  def isUntouched: Boolean = bits == 0

  /** How often it was found lately, 0 to [[SlotWord.MaxFrequency]]. */
  def frequency: Int = (bits >>> 2 & 3).toInt

  /** Whether it was ever found after it came. */
  def wasHit: Boolean = (bits >>> 4 & 1) == 1

  /** Whether it was worth something when it came, and still waits to be found for the first time. */
  def isAwaited: Boolean = frequency > 0 && !wasHit

  /** What it takes on the medium, in [[SlotWord.BlockSize]]. */
  def blocks: Int = (bits >>> 5 & MaxBlocks).toInt

  def bytes: Long = blocks.toLong * BlockSize

  /** Seconds since the last change that stamped the word. */
  def age(now: Int): Int = now - stamp & MaxAge

  private def stamp: Int = (bits >>> 20 & MaxAge).toInt

  private def version: Long = bits >>> 40

  def reserved(blocks: Int, now: Int): SlotWord = pack(Reserved, 0, hit = false, blocks, now, version + 1)
  def present(frequency: Int, now: Int): SlotWord = pack(Present, frequency, hit = false, blocks, now, version)
  def found(frequency: Int, now: Int): SlotWord = pack(Present, frequency, hit = true, blocks, now, version)

  /** With its last step a page loses its stamp's renewal too: it has had its time. */
  def decayed(now: Int): SlotWord =
    pack(Present, frequency - 1, wasHit, blocks, if (frequency > 1) now else stamp, version)

  def evicting(now: Int): SlotWord = pack(Evicting, frequency, wasHit, blocks, now, version)
  def free: SlotWord = pack(Free, 0, hit = false, 0, 0, version)
}

private[cache] object SlotWord {
  val Free = 0
  val Reserved = 1
  val Present = 2
  val Evicting = 3

  val MaxFrequency = 3
  val MaxBlocks = 0x7fff
  val MaxAge = 0xfffff

  /** File systems hand out whole blocks of this many bytes, tmpfs included. */
  val BlockSize = 4096

  def blocksOf(bytes: Long): Int = math.toIntExact((bytes + BlockSize - 1) / BlockSize)

  private def pack(state: Int, frequency: Int, hit: Boolean, blocks: Int, now: Int, version: Long): SlotWord =
    new SlotWord(
      state.toLong | frequency.toLong << 2 | (if (hit) 1L << 4 else 0L) | blocks.toLong << 5 |
        (now & MaxAge).toLong << 20 | version << 40
    )
}

/**
 * Words of 64 bits that processes share: memory mapped from one file, updated with the processor's atomic instructions.
 * Offsets are in bytes and multiples of 8.
 *
 * Every method throws `InternalError` when the file behind the memory has become shorter or its device fails.
 */
private[cache] final class SharedWords(memory: ByteBuffer) {
  import SharedWords.View

  def size: Int = memory.capacity

  def get(offset: Int): Long = View.getVolatile(memory, offset)

  def set(offset: Int, value: Long): Unit = View.setVolatile(memory, offset, value)

  def compareAndSet(offset: Int, expected: Long, value: Long): Boolean =
    View.compareAndSet(memory, offset, expected, value)

  /** The value after adding. */
  def add(offset: Int, amount: Long): Long = {
    val before: Long = View.getAndAdd(memory, offset, amount)
    before + amount
  }
}

private[cache] object SharedWords {
  private val View: VarHandle = MethodHandles.byteBufferViewVarHandle(classOf[Array[Long]], ByteOrder.nativeOrder)
}
