package io.penstock.fs.cache

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.matchers.should.Matchers

import io.penstock.fs.cache.EvictionPolicy._
import io.penstock.fs.testing.Properties

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
