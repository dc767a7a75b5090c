package io.penstock.fs.cache

import org.apache.hadoop.conf.Configuration
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.matchers.should.Matchers
import org.scalatest.prop.TableDrivenPropertyChecks._

import io.penstock.fs.cache.EvictionPolicy._
import io.penstock.fs.metrics.Counters
import io.penstock.fs.testing.Properties

class TierSizeSuite extends AnyFunSuite with Matchers {

  test("sizes are bytes, with a unit, or a percentage") {
    forAll(
      Table(
        "text" -> "size",
        "0" -> TierSize.Bytes(0),
        "512" -> TierSize.Bytes(512),
        " 4k" -> TierSize.Bytes(4096),
        "512M" -> TierSize.Bytes(512L << 20),
        "20gb" -> TierSize.Bytes(20L << 30),
        "2T" -> TierSize.Bytes(2L << 40),
        "12.5 %" -> TierSize.Percent(12.5)
      )
    )((text, size) => TierSize.parse(text) shouldBe Right(size))
    for (text <- Seq("", "-1", "lots", "1.5G", "101%", "5P", "9" * 40)) TierSize.parse(text) shouldBe a[Left[_, _]]
  }

  test("a percentage is of the whole, and never more than half of what there is") {
    TierSize.Percent(10).budget(total = 1000, available = 900) shouldBe 100
    TierSize.Percent(10).budget(total = 1000, available = 60) shouldBe 30
    TierSize.Bytes(500).budget(total = 1000, available = 60) shouldBe 500
  }

  private def conf(settings: (String, String)*): Configuration = {
    val conf = new Configuration(false)
    settings.foreach { case (name, value) => conf.set(name, value) }
    conf
  }

  test("both tiers are on by default, each in a directory of the user's") {
    val Right(Vector(memory, disk)) = TierSettings.from(conf()): @unchecked
    (memory.kind, disk.kind) shouldBe ((TierKind.Memory, TierKind.Disk))
    for (tier <- Seq(memory, disk))
      tier.directory.toString should include(s"penstock-${System.getProperty("user.name")}")
    TierSettings.from(conf(CacheSettings.MemorySize -> "0")).map(_.map(_.kind)) shouldBe Right(Vector(TierKind.Disk))
  }

  test("by default a disk leaves pages to a store that is as near, and memory never does") {
    def adaptive(settings: (String, String)*) = TierSettings.from(conf(settings: _*)).map(_.map(_.adaptive))
    adaptive() shouldBe Right(Vector(false, true))
    adaptive(CacheSettings.Admission -> "always") shouldBe Right(Vector(false, false))
  }

  test("a setting that makes no sense leaves reading without the cache, and says which one it is") {
    for (
      (name, value) <- Seq(
        CacheSettings.DiskSize -> "much",
        CacheSettings.PageSize -> "100",
        CacheSettings.PageSize -> "10%",
        CacheSettings.Admission -> "sometimes"
      )
    ) {
      TierSettings.from(conf(name -> value)).left.map(_.takeWhile(_ != ':')) shouldBe Left(name)
      PageCaches.of(conf(name -> value), "bucket") shouldBe None
    }
    PageCaches.of(conf(CacheSettings.Enabled -> "false"), "bucket") shouldBe None
    PageCaches.of(conf(CacheSettings.MemorySize -> "0", CacheSettings.DiskSize -> "0%"), "bucket") shouldBe None
  }
}

/** A tier leaves pages to a store that is as near. */
class TierCostsSuite extends AnyFunSuite with TemporaryTiers with Matchers with Properties {

  private val MiB = 1L << 20
  private val scan = version("scan", 20)

  private def demoted(work: => Unit): Long = {
    val before = Counters.now()
    work
    Counters.now()("pages_demoted") - before("pages_demoted")
  }

  test("a page pays if half of what reading it from the tier saves makes up for writing it") {
    TierCosts.pays(fetching = Some(10), writing = Some(4), reading = Some(2)) shouldBe true
    TierCosts.pays(fetching = Some(9.9), writing = Some(4), reading = Some(2)) shouldBe false
    TierCosts.pays(fetching = Some(1), writing = Some(0.1), reading = Some(2)) shouldBe false
  }

  test("what nobody has measured speaks for the tier, and a slower store never against it") {
    TierCosts.pays(None, Some(1), Some(1)) shouldBe true
    TierCosts.pays(Some(1), None, Some(5)) shouldBe true
    TierCosts.pays(Some(2), Some(1), None) shouldBe true
    val costs = Gen.choose(0.0, 100.0)
    forAll(costs, costs, costs, costs) { (fetch, more, write, read) =>
      if (TierCosts.pays(Some(fetch), Some(write), Some(read)))
        TierCosts.pays(Some(fetch + more), Some(write), Some(read)) shouldBe true
    }
  }

  test("a pace is what the last megabytes took, and follows a change within a few times as many") {
    val pace = new Pace
    pace.nanosPerByte shouldBe None
    for (_ <- 1 to 1000) pace.note(MiB, 3 * MiB)
    pace.nanosPerByte.get shouldBe 3.0 +- 1e-9
    for (_ <- 1 to 200) pace.note(MiB, 9 * MiB)
    pace.nanosPerByte.get shouldBe 9.0 +- 0.5
    pace.note(1 << 30, 1 << 30)
    pace.nanosPerByte.get shouldBe 1.0 +- 1e-9
    pace.note(0, 1000)
    pace.nanosPerByte.get shouldBe 1.0 +- 1e-9
  }

  test("where the store is far, the disk takes what a scan brings beyond memory, and what memory gives up") {
    val pages = cache(memory(4 * (PageSize + 8192)), disk(64 * MiB))
    pages.fetched(64 * MiB, 64 * MiB * 1000)
    for (index <- 0 until 10) fill(pages, scan, index.toLong, scanned = true) shouldBe true
    filesOf(disk(0)) should have size 6
    demoted(for (index <- 10 until 14) fill(pages, scan, index.toLong)) shouldBe 4
  }

  test("where the store is as near as the disk, the disk takes none of it, but for a try now and then") {
    val pages = cache(memory(4 * (PageSize + 8192)), disk(64 * MiB))
    pages.fetched(64 * MiB, 0)
    // Before the first page was written there, nobody knows what that takes.
    for (index <- 0 until 5) fill(pages, scan, index.toLong, scanned = true) shouldBe true
    pages.room should be < PageSize.toLong
    for (index <- 5 until 15) fill(pages, scan, index.toLong, scanned = true) shouldBe false
    demoted(for (index <- 15 until 19) fill(pages, scan, index.toLong)) shouldBe 0
    filesOf(disk(0)) should have size 1
    val more = version("more", 200)
    val kept = (0L until 2L * TierCosts.TriesOneOf).count(fill(pages, more, _, scanned = true))
    kept shouldBe 2
  }

  test("a disk that is not adaptive keeps whatever comes, however near the store is") {
    val pages = cache(disk(64 * MiB).copy(adaptive = false))
    pages.fetched(64 * MiB, 0)
    for (index <- 0 until 10) fill(pages, scan, index.toLong, scanned = true) shouldBe true
    pages.room should be > 32 * MiB
  }

  test("where there is no memory tier, what is asked for by itself is kept on disk however near the store is") {
    val pages = cache(disk(64 * MiB))
    pages.fetched(64 * MiB, 0)
    for (index <- 0 until 10) fill(pages, scan, index.toLong) shouldBe true
  }

  test("a disk that has given way takes pages again when the store has become slower") {
    val pages = cache(memory(4 * (PageSize + 8192)), disk(64 * MiB))
    pages.fetched(64 * MiB, 0)
    for (index <- 0 until 6) fill(pages, scan, index.toLong, scanned = true)
    pages.room should be < PageSize.toLong
    pages.fetched(64 * MiB, 64 * MiB * 1000)
    pages.room should be > 32 * MiB
    fill(pages, scan, 6, scanned = true) shouldBe true
  }
}

class EvictionPolicySuite extends AnyFunSuite with Matchers with Properties {

  private val vacant = new SlotWord(0)
  private val page = vacant.reserved(blocks = 17, now = 100).present(worthAtFirst(Read), 100)
  private val written = vacant.reserved(blocks = 17, now = 100).present(worthAtFirst(Written), 100)

  test("a page nobody has found since it came goes first, but for a scan's page only after its time") {
    for (cause <- Seq(Read, Written)) judge(page, 100, cause) shouldBe Evict
    judge(page, 100 + DecayAfter, Scanned) shouldBe Keep
    judge(page, 100 + DecayAfter + 1, Scanned) shouldBe Evict
  }

  test("a page that was written is kept for its first reader as long as a found one for the next, and no longer") {
    for (cause <- Seq(Read, Written, Scanned)) {
      judge(written, 100 + DecayAfter, cause) shouldBe Keep
      judge(written, 100 + DecayAfter + 1, cause) shouldBe Decay
      judge(written.decayed(100 + DecayAfter + 1), 100 + DecayAfter + 1, cause) shouldBe Evict
    }
  }

  test("a written page that was found once is as one that was read once, a second time as one that was read again") {
    val readOnce = found(written, 100 + SameUse)
    (readOnce.frequency, readOnce.wasHit, readOnce.age(100 + SameUse)) shouldBe ((0, false, 0))
    val readAgain = found(readOnce, 100 + 2 * SameUse)
    (readAgain.frequency, readAgain.wasHit) shouldBe ((1, true))
    found(written, 100 + SameUse - 1).bits shouldBe written.bits
  }

  test("nothing in use goes at once for whatever comes, and a scan takes nothing that others would leave") {
    val words = for {
      frequency <- Gen.choose(0, SlotWord.MaxFrequency)
      hit <- Gen.oneOf(true, false)
      age <- Gen.choose(0, 10 * DecayAfter)
    } yield (if (hit) page.found(frequency, 100) else page.present(frequency, 100), 100 + age)
    forAll(words) { case (word, now) =>
      val goes = Seq(Read, Written, Scanned).filter(judge(word, now, _) == Evict)
      if (word.frequency > 0) goes shouldBe empty
      if (goes.contains(Scanned)) goes should contain allOf (Read, Written)
    }
  }

  test("a reader that comes back at once is the same use: a scan in small steps does not look popular") {
    found(page, 100 + SameUse - 1).bits shouldBe page.bits
    judge(found(page, 100 + SameUse - 1), 101, Read) shouldBe Evict
    judge(found(page, 100 + SameUse), 102, Read) shouldBe Keep
  }

  test("a page in use decays one step for each period without being found, however often the hand comes by") {
    val used = (1 to SlotWord.MaxFrequency).foldLeft(page)((word, n) => found(word, 100 + n * SameUse))
    used.frequency shouldBe SlotWord.MaxFrequency
    val last = 100 + SlotWord.MaxFrequency * SameUse
    judge(used, last + DecayAfter, Read) shouldBe Keep
    judge(used, last + DecayAfter + 1, Read) shouldBe Decay
    used.decayed(last + DecayAfter + 1).frequency shouldBe SlotWord.MaxFrequency - 1
    judge(used.decayed(last + DecayAfter + 1), last + DecayAfter + 2, Read) shouldBe Keep
  }

  test("of pages in use the one found least often, then the one not found for longest, is worth least") {
    val rare = found(page, 110)
    val older = found(page, 105)
    val popular = found(older, 120)
    Seq(popular, rare, older).sortBy(worth(_, 130)) shouldBe Seq(older, rare, popular)
  }

  test("what leaves is moved on if it was ever found; if not, while there is room, and not for what is written") {
    val used = found(page, 100 + SameUse)
    for (cause <- Seq(Read, Scanned, Written); roomLeft <- Seq(true, false))
      isWorthMoving(used, cause, roomLeft) shouldBe true
    isWorthMoving(page, Read, roomLeft = true) shouldBe true
    isWorthMoving(page, Read, roomLeft = false) shouldBe false
    isWorthMoving(page, Written, roomLeft = true) shouldBe false
  }

  test("a slot is reclaimed only when whoever took it must be dead") {
    for (taken <- Seq(vacant.reserved(1, 100), page.evicting(100))) {
      judge(taken, 100 + Abandoned, Scanned) shouldBe Keep
      judge(taken, 100 + Abandoned + 1, Scanned) shouldBe Reclaim
    }
  }

  test("a word keeps what it was given, and no two tenants of a slot have the same one") {
    forAll(Gen.choose(1, SlotWord.MaxBlocks), Gen.choose(0, Int.MaxValue), Gen.choose(0L, Long.MaxValue)) {
      (blocks, now, before) =>
        val word = new SlotWord(before).reserved(blocks, now)
        word.state shouldBe SlotWord.Reserved
        word.blocks shouldBe blocks
        word.age(now) shouldBe 0
        word.present(1, now).isPresent shouldBe true
        word.present(1, now).wasHit shouldBe false
        word.present(1, now).found(3, now).evicting(now).wasHit shouldBe true
        word.free.reserved(blocks, now).bits should not equal word.bits
        word.free.isUntouched shouldBe false
    }
  }
}
