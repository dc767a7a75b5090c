package io.penstock.fs.cache

import java.nio.ByteBuffer
import java.nio.file.{Files, Path}
import java.util.concurrent.{Executors, TimeUnit}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.matchers.should.Matchers

/** The table alone, in plain memory: pages are only names here. */
class PageTableSuite extends AnyFunSuite with Matchers {

  private class Fixture(val capacity: Int, slots: Int) {
    @volatile var now = 1000
    val words = new SharedWords(ByteBuffer.allocateDirect(PageTable.fileSize(slots).toInt))
    PageTable.format(words)
    val table = new PageTable(words, () => now)
    table.budget = capacity.toLong * SlotWord.BlockSize

    /** As a tier does: room, slot, page; false if that cannot be. */
    def bring(key: PageKey, cause: EvictionPolicy.Cause = EvictionPolicy.Read): Boolean = {
      while (!table.charge(1))
        table.victim(cause) match {
          case Some(victim) => table.remove(victim, evicted = true)
          case None => return false
        }
      var reservation = table.reserve(key, 1)
      if (reservation == PageTable.NoRoom) {
        table.victimNear(key, cause).foreach(table.remove(_, evicted = true))
        reservation = table.reserve(key, 1)
      }
      reservation match {
        case reserved: PageTable.Reserved => table.confirm(reserved, cause)
        case _ =>
          table.discharge(1)
          false
      }
    }

    def find(key: PageKey): Boolean = {
      val slot = table.find(key)
      slot != PageTable.Nowhere && table.touch(slot, key)
    }

    def used: Long = table.status.used / SlotWord.BlockSize
  }

  private def key(n: Int): PageKey = ObjectVersion("b", "k", Long.MaxValue, "e").page(n.toLong, 4096)

  test("a hot set survives a one-time scan of ten times the budget; under LRU it would not") {
    val capacity = 2000
    val hot = (0 until capacity / 2).map(key)
    val scan = (capacity until capacity * 11).map(key)
    val fixture = new Fixture(capacity, capacity * 2)
    val lru = new mutable.LinkedHashSet[PageKey]
    def read(page: PageKey): Unit = {
      if (!fixture.find(page)) fixture.bring(page)
      lru -= page
      lru += page
      if (lru.size > capacity) lru -= lru.head
    }
    for (_ <- 1 to 3) {
      hot.foreach(read)
      fixture.now += EvictionPolicy.SameUse
    }
    // One gigabyte a second through a cache of one hundred: the scan ends within the time a page in use is kept.
    for ((page, n) <- scan.zipWithIndex) {
      if (n % (capacity / 10) == 0) fixture.now += 1
      read(page)
    }
    hot.count(fixture.find) should be >= hot.size * 99 / 100
    hot.count(lru.contains) shouldBe 0
  }

  /** Reads the pages one after the other, as a scan at a thousand a second; how many were there. */
  private def scan(fixture: Fixture, pages: Range): Int =
    pages.count { n =>
      if (n % 1000 == 0) fixture.now += 1
      fixture.find(key(n)) || {
        fixture.bring(key(n), EvictionPolicy.Scanned)
        false
      }
    }

  test("a scan of twice the budget finds half of it the next time, for no eviction; under LRU it would find nothing") {
    val fixture = new Fixture(capacity = 10000, slots = 40000)
    scan(fixture, 0 until 20000) shouldBe 0
    fixture.now += EvictionPolicy.SameUse
    for (_ <- 1 to 3) scan(fixture, 0 until 20000) shouldBe 10000
    (0 until 10000).forall(n => fixture.find(key(n))) shouldBe true
    fixture.table.status.evictions shouldBe 0
  }

  test("an endless scan turns the tier over once in the time that a page is given, whatever its pace") {
    val capacity = 2000
    val fixture = new Fixture(capacity, 4 * capacity)
    scan(fixture, 0 until 1000000)
    val periods = (fixture.now - 1000) / EvictionPolicy.DecayAfter
    fixture.table.status.evictions should (be >= (periods - 1L) * capacity * 9 / 10 and be <= periods.toLong * capacity)
  }

  test("a scan takes the place of what was in use before, once that is forgotten") {
    val fixture = new Fixture(capacity = 1000, slots = 4000)
    for (n <- 0 until 1000) fixture.bring(key(n))
    fixture.now += EvictionPolicy.SameUse
    for (n <- 0 until 1000) fixture.find(key(n))
    scan(fixture, 5000 until 7000)
    (0 until 1000).count(n => fixture.find(key(n))) shouldBe 1000
    for (_ <- 1 to 4) {
      fixture.now += EvictionPolicy.DecayAfter + 1
      scan(fixture, 5000 until 7000)
    }
    (5000 until 7000).count(n => fixture.find(key(n))) should be >= 900
  }

  test("what is written takes the place of what was scanned, and not of what was written just before") {
    val fixture = new Fixture(capacity = 1000, slots = 4000)
    scan(fixture, 0 until 1000)
    for (n <- 5000 until 7000) fixture.bring(key(n), EvictionPolicy.Written)
    (5000 until 6000).count(n => fixture.find(key(n))) should be >= 950
    fixture.table.status.evictions should be <= 1000L
  }

  test("the room that a scan hears of is there, and is no more than half too much") {
    val random = new Random(7)
    val fixture = new Fixture(capacity = 2000, slots = 8000)
    for (n <- 0 until 1500) fixture.bring(key(n))
    fixture.table.roomFor(EvictionPolicy.Scanned) shouldBe 500L * SlotWord.BlockSize
    for (n <- 1500 until 2000) fixture.bring(key(n))
    fixture.table.roomFor(EvictionPolicy.Scanned) shouldBe 0
    fixture.now += EvictionPolicy.DecayAfter + 1
    for (n <- 0 until 2000 if random.nextBoolean()) fixture.find(key(n))
    val promised = fixture.table.roomFor(EvictionPolicy.Scanned) / SlotWord.BlockSize
    val taken = (5000 until 7000).count(n => fixture.bring(key(n), EvictionPolicy.Scanned))
    promised.toDouble should be(taken.toDouble +- taken / 2.0)
  }

  test("where everything is in use, eviction still finds one page for another and keeps the popular ones") {
    val capacity = 1000
    val fixture = new Fixture(capacity, capacity * 2)
    val (popular, rest) = (0 until capacity).map(key).splitAt(100)
    (popular ++ rest).foreach(fixture.bring(_))
    fixture.now += EvictionPolicy.SameUse
    (popular ++ rest).foreach(fixture.find)
    for (_ <- 1 to 2) {
      fixture.now += EvictionPolicy.SameUse
      popular.foreach(fixture.find)
    }
    for (n <- 0 until 300) fixture.bring(key(100000 + n)) shouldBe true
    popular.count(fixture.find) should be >= 99
    fixture.used shouldBe capacity
  }

  test("a slot whose taker died is reclaimed by its age, with the room it took") {
    val fixture = new Fixture(capacity = 2, slots = 64)
    for (n <- 0 to 1) {
      fixture.table.charge(1) shouldBe true
      fixture.table.reserve(key(n), 1) shouldBe a[PageTable.Reserved]
    }
    fixture.bring(key(2)) shouldBe false
    fixture.now += EvictionPolicy.Abandoned + 1
    fixture.bring(key(2)) shouldBe true
    fixture.find(key(2)) shouldBe true
    fixture.used shouldBe 2
    fixture.table.status.pages shouldBe 1
  }

  test("who was thought dead and comes back does not bring its page twice, nor free another's slot") {
    val fixture = new Fixture(capacity = 1, slots = 64)
    fixture.table.charge(1)
    val slow = fixture.table.reserve(key(0), 1).asInstanceOf[PageTable.Reserved]
    fixture.now += EvictionPolicy.Abandoned + 1
    fixture.bring(key(0)) shouldBe true
    fixture.table.confirm(slow, EvictionPolicy.Read) shouldBe false
    fixture.table.cancel(slow)
    fixture.used shouldBe 1
    fixture.find(key(0)) shouldBe true
    fixture.table.status.pages shouldBe 1
  }

  test("a table of twice its slots' pages keeps taking new ones: a full window evicts in the window") {
    val fixture = new Fixture(capacity = 1000, slots = 256)
    for (n <- 0 until 1000) {
      withClue(n)(fixture.bring(key(n)) shouldBe true)
      fixture.find(key(n)) shouldBe true
    }
    fixture.table.status.pages should be <= 256L
    fixture.used shouldBe fixture.table.status.pages
  }

  test("counts that drifted are put right by counting") {
    val fixture = new Fixture(capacity = 100, slots = 256)
    (0 until 10).foreach(n => fixture.bring(key(n)))
    fixture.table.charge(50)
    fixture.table.recount()
    (fixture.used, fixture.table.status.pages) shouldBe ((10L, 10L))
  }

  test("threads that bring, find and drop the same few pages leave no page twice and the counts right") {
    val fixture = new Fixture(capacity = 40, slots = 128)
    val pool = Executors.newFixedThreadPool(4)
    for (seed <- 1 to 4) pool.execute { () =>
      val random = new Random(seed)
      for (_ <- 1 to 50000) {
        val page = key(random.nextInt(80))
        random.nextInt(4) match {
          case 0 | 1 => fixture.bring(page)
          case 2 => fixture.find(page)
          case 3 => fixture.table.take(page).foreach(fixture.table.remove(_, evicted = false))
        }
      }
    }
    pool.shutdown()
    pool.awaitTermination(60, TimeUnit.SECONDS) shouldBe true
    val present = fixture.table.presentKeys.toSeq
    present.distinct should have size present.size.toLong
    fixture.table.status.pages shouldBe present.size
    fixture.used shouldBe present.size
    present.size should be <= fixture.capacity
  }

  test("memory that is no table, or one of another size, is distinguished from one that is") {
    val words = new Fixture(10, 256).words
    PageTable.isFormatted(words) shouldBe true
    PageTable.isFormatted(new SharedWords(ByteBuffer.allocateDirect(words.size))) shouldBe false
    words.set(8, 255)
    PageTable.isFormatted(words) shouldBe false
    PageTable.isFormatted(new SharedWords(ByteBuffer.allocateDirect(0))) shouldBe false
  }
}

class MappingsSuite extends AnyFunSuite with Matchers with TemporaryTiers {

  private val Limit = 8

  /** A tier with pages in it, and what one process maps of them. */
  private class Fixture(pages: Int) {
    private val all = version("a", pages.toDouble)
    val tier = new Tier(memory(1L << 30), None, None, () => now.get, restMs = 0)
    val mappings = new Mappings(Limit)
    for (index <- 0 until pages) {
      val data = ByteBuffer.wrap(bytesOf(all, index.toLong))
      tier.insert(label(index).key, label(index), data, EvictionPolicy.Read) shouldBe Tier.Kept
    }

    def label(index: Int): PageLabel = PageLabel(all, index.toLong, PageSize)

    /** The page with a pin, mapped if it was not. */
    def pinned(index: Int): MappedPage = mappings.pinned(label(index).key) match {
      case null => mappings.share(tier.map(label(index).key, label(index)))
      case page => page
    }

    def use(index: Int): Unit = pinned(index).unpin()

    def isMapped(index: Int): Boolean = mappings.pinned(label(index).key) match {
      case null => false
      case page =>
        page.unpin()
        true
    }
  }

  /** The kernel's list of the mappings of this process below the test's directory, removed files included. */
  private def mappedFiles: Int =
    Files
      .readAllLines(Path.of("/proc/self/maps"))
      .asScala
      .count(_.contains(directory.resolve("memory/v1/pages").toString))

  test("no more pages stay mapped than the limit, and those found again are those that stay") {
    val fixture = new Fixture(40)
    for (index <- 0 until 4) fixture.use(index)
    for (index <- 4 until 40) {
      for (popular <- 0 until 4) fixture.use(popular)
      fixture.use(index)
      fixture.mappings.size should be <= Limit
    }
    for (popular <- 0 until 4) fixture.isMapped(popular) shouldBe true
    for (_ <- 1 to 2) fixture.mappings.sweep()
    mappedFiles shouldBe fixture.mappings.size
  }

  test("the memory of an evicted page is given back by the second sweep, or when its last reader is done") {
    val fixture = new Fixture(2)
    fixture.use(0)
    val read = fixture.pinned(1)
    mappedFiles shouldBe 2
    for (index <- 0 to 1) fixture.tier.forget(fixture.label(index).key)
    fixture.mappings.sweep()
    withClue("its reader may be closing it this very moment")(mappedFiles shouldBe 2)
    fixture.mappings.sweep()
    mappedFiles shouldBe 1
    read.check(0, PageSize) shouldBe true
    read.unpin()
    fixture.mappings.sweep()
    mappedFiles shouldBe 0
    read.pin() shouldBe false
  }

  test("two threads that map one page at once share one mapping") {
    val fixture = new Fixture(1)
    val label = fixture.label(0)
    val (first, second) = (fixture.tier.map(label.key, label), fixture.tier.map(label.key, label))
    fixture.mappings.share(first) should be theSameInstanceAs first
    fixture.mappings.share(second) should be theSameInstanceAs first
    mappedFiles shouldBe 1
  }
}
