package io.penstock.fs.cache

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.testing.Properties

/** Admission of pages that are read, by how often they were read before. */
class AdmissionPolicyTest extends AnyFunSuite with TemporaryTiers with Properties {
  import AdmissionPolicy._

  private val MiB = 1L << 20

  /** A store on this machine: half a millisecond to an answer, a GB in a second. */
  private val near = Costs(request = 500e3, transfer = 1, writing = 0.7, reading = 0.1)
  private val far = near.copy(request = 5e6)

  private def scan(bytes: Long) = Read(bytes, bytes, 32 * MiB)
  private def piece(bytes: Long) = Read(bytes, MiB, bytes)

  private def admits(touches: Int, read: Read, costs: Costs): Boolean =
    Measured.admits(Seq(touches), read, costs, room = true)

  test("a scan is kept when it is read for the second time, and from a slow store at once") {
    assert(!admits(0, scan(MiB), near))
    assert(admits(1, scan(MiB), near))
    assert(admits(0, scan(MiB), near.copy(transfer = 20)))
  }

  test("pieces of pages are kept at once where each request is a journey, near a store once reads would have paid") {
    assert(admits(0, piece(65536), far))
    // A request saves 0.56 ms; the 960 KiB that nobody has asked for take 1.67 ms.
    assert(!admits(2, piece(65536), near))
    assert(admits(3, piece(65536), near))
  }

  test("of several pages half must have been read before, however often the others were") {
    val two = Read(2 * MiB, 2 * MiB, 32 * MiB)
    assert(Measured.admits(Seq(1, 0), two, near, room = true))
    assert(!Measured.admits(Seq(15, 0, 0), two, near, room = true))
  }

  test("a tier that is slower than the store keeps nothing, however often it is read") {
    assert(!admits(15, scan(MiB), near.copy(reading = 5)))
  }

  test("what is cheaper in any way to keep is kept, too, and so is what was read more often") {
    val cost = Gen.choose(0.0, 100.0)
    val costs = for (a <- cost; b <- cost; c <- cost; d <- cost) yield Costs(a * 1e5, b, c, d)
    val reads =
      for (wanted <- Gen.choose(1L, MiB); more <- Gen.choose(0L, 32 * MiB)) yield Read(wanted, MiB, wanted + more)
    forAll(costs, reads, Gen.choose(0, 14), cost) { (costs, read, touches, more) =>
      if (admits(touches, read, costs)) {
        assert(admits(touches, read, costs.copy(request = costs.request + more)))
        assert(admits(touches, read, costs.copy(writing = costs.writing / 2)))
        assert(admits(touches + 1, read, costs) || costs.saved(read) < 0)
      }
    }
  }

  private val first = version("first", 100)

  private def touched(cache: TieredPageCache, pages: Int*): Unit =
    pages.foreach(page => cache.passed(first, page.toLong))

  private def again(cache: TieredPageCache, page: Long): Boolean = cache.admits(first, page, page, PageSize, PageSize)

  private def counting(tiers: TierSettings*): TieredPageCache =
    PageCaches.create(tiers.toVector, () => now.get, admission = Again, nanos = nanos)

  private def eightPages: TieredPageCache = {
    val made = PageCaches.create(
      Vector(memory(8 * (PageSize + 8192))),
      () => now.get,
      admission = Measured,
      nanos = nanos
    )
    // A second to an answer: every page is worth keeping.
    made.answered(1000000000L)
    made
  }

  /** Reads a page every `seconds`; how many were found, and how many were fetched to be kept. */
  private def read(cache: TieredPageCache, of: ObjectVersion, pages: Seq[Long], seconds: Int): (Int, Int) = {
    val counts = pages.map { page =>
      now.addAndGet(seconds)
      if (read(cache, of, page).nonEmpty) (1, 0)
      else if (!cache.admits(of, page, page, PageSize, PageSize)) {
        cache.passed(of, page)
        (0, 0)
      } else {
        fill(cache, of, page)
        (0, 1)
      }
    }
    (counts.map(_._1).sum, counts.map(_._2).sum)
  }

  test("who reads four times what fits, round after round, finds what was kept, and fetches little to keep it") {
    val (cache, rounds) = (eightPages, version("rounds", 32))
    assert(read(cache, rounds, 0L until 32L, seconds = 1) == (0, 8))
    for (_ <- 1 to 10) {
      val (found, fetched) = read(cache, rounds, 0L until 32L, seconds = 1)
      assert(found >= 7 && fetched <= 1)
    }
  }

  test("kept pages are replaced by other work: one in thirty-two while they are in use, all later") {
    val cache = eightPages
    read(cache, first, (0L until 8L) ++ (0L until 8L), seconds = 1)
    val (_, early) = read(cache, version("other", 100), 0L until 64L, seconds = 1)
    assert(early == 2)
    now.addAndGet(3 * EvictionPolicy.DecayAfter)
    val (_, late) = read(cache, version("third", 100), 0L until 24L, seconds = EvictionPolicy.DecayAfter / 4)
    assert(late >= 8)
  }

  test("a page that was read once is distinguished from its neighbours, by other processes too") {
    touched(counting(memory(MiB)), 7, 9)
    val another = counting(memory(MiB))
    assert((0L until 12L).filter(again(another, _)) == Seq(7, 9))
  }

  test("an object has as many touches as its readers' credentials, and none of another version's time") {
    val cache = counting(memory(MiB))
    touched(cache, 3)
    assert(!cache.admits(version("second", 100), 3, 3, PageSize, PageSize))
    assert(!cache.admits(first.copy(scope = "other"), 3, 3, PageSize, PageSize))
  }

  test("what was read long ago is as if it had never been read") {
    val cache = counting(memory(MiB))
    touched(cache, 3)
    now.addAndGet(30 * 3600)
    assert(!again(cache, 3))
    touched(cache, 3)
    assert(again(cache, 3))
  }

  test("a table that is full forgets the old and the rare, and keeps what is read now") {
    val table = new Touches(new SharedWords(java.nio.ByteBuffer.allocateDirect(Touches.Size)), () => now.get)
    val pages = Touches.Size / 8
    def key(index: Int) = version(s"object-$index", 1).page(0, PageSize)
    (0 until 2 * pages).foreach(index => table.add(key(index), 0))
    val known = (0 until 2 * pages).count(index => table.of(key(index), 0) > 0)
    assert(known > pages * 9 / 10 && known <= pages)
    assert((2 * pages - 1000 until 2 * pages).count(index => table.of(key(index), 0) > 0) > 980)
  }

  test("counts end at fifteen, and threads that count at once lose few") {
    val table = new Touches(new SharedWords(java.nio.ByteBuffer.allocateDirect(Touches.Size)), () => now.get)
    val key = first.page(0, PageSize)
    (1 to 40).foreach(_ => table.add(key, 2))
    assert((0 until 4).map(table.of(key, _)) == Seq(0, 0, 15, 0))
  }

  test("a tier that does not work admits nothing new and breaks nothing") {
    val cache = counting(memory(0))
    touched(cache, 1)
    assert(!again(cache, 1))
  }
}
