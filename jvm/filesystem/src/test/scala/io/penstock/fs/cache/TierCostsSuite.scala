package io.penstock.fs.cache

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.matchers.should.Matchers

import io.penstock.fs.Counters
import io.penstock.fs.testing.Properties

/** A tier gives way where the store is as near. */
class TierCostsSuite extends AnyFunSuite with TemporaryTiers with Matchers with Properties {

  private val MiB = 1L << 20
  private val scan = identity("scan", 20)

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
    pages.roomForScan should be < PageSize.toLong
    for (index <- 5 until 15) fill(pages, scan, index.toLong, scanned = true) shouldBe false
    demoted(for (index <- 15 until 19) fill(pages, scan, index.toLong)) shouldBe 0
    filesOf(disk(0)) should have size 1
    val more = identity("more", 200)
    val kept = (0L until 2L * TierCosts.TriesOneOf).count(fill(pages, more, _, scanned = true))
    kept shouldBe 2
  }

  test("a disk that is told not to give way keeps whatever comes, however near the store is") {
    val pages = cache(disk(64 * MiB).copy(givesWay = false))
    pages.fetched(64 * MiB, 0)
    for (index <- 0 until 10) fill(pages, scan, index.toLong, scanned = true) shouldBe true
    pages.roomForScan should be > 32 * MiB
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
    pages.roomForScan should be < PageSize.toLong
    pages.fetched(64 * MiB, 64 * MiB * 1000)
    pages.roomForScan should be > 32 * MiB
    fill(pages, scan, 6, scanned = true) shouldBe true
  }
}
