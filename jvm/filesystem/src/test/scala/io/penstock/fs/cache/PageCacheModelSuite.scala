package io.penstock.fs.cache

import java.nio.ByteBuffer
import java.nio.file.{Files, StandardCopyOption}

import scala.collection.mutable

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.matchers.should.Matchers
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/**
 * Random histories on several caches over one directory, as several processes have them, against a plain set of pages.
 */
class PageCacheModelSuite extends AnyFunSuite with Matchers with TemporaryTiers with ScalaCheckPropertyChecks {

  private sealed trait Step
  private case class Fill(cache: Int, page: Int, scanned: Boolean) extends Step
  private case class Keep(cache: Int, page: Int) extends Step
  private case class Find(cache: Int, page: Int) extends Step
  private case class Rename(cache: Int, page: Int, to: Int) extends Step
  private case class Forget(cache: Int, theObject: Int) extends Step
  private case class Restart(cache: Int) extends Step
  private case class Sweep(cache: Int) extends Step
  private case class Wait(seconds: Int) extends Step
  private case class Damage(file: Int, at: Int) extends Step

  private val Caches = 3
  private val Objects = 5
  private val PagesEach = 3
  private val PageFootprint = (PageSize + SlotWord.BlockSize).toLong

  private def objectOf(page: Int): ObjectIdentity = identity(s"object-${page / PagesEach}", PagesEach.toDouble)
  private def indexOf(page: Int): Long = (page % PagesEach).toLong

  private val steps: Gen[List[Step]] = {
    val cache = Gen.choose(0, Caches - 1)
    val page = Gen.choose(0, Objects * PagesEach - 1)
    val step: Gen[Step] = Gen.frequency(
      8 -> Gen.zip(cache, page, Gen.oneOf(true, false)).map((Fill.apply _).tupled),
      2 -> Gen.zip(cache, page).map((Keep.apply _).tupled),
      8 -> Gen.zip(cache, page).map((Find.apply _).tupled),
      2 -> Gen.zip(cache, page, page).suchThat { case (_, from, to) => from != to }.map((Rename.apply _).tupled),
      1 -> Gen.zip(cache, Gen.choose(0, Objects - 1)).map((Forget.apply _).tupled),
      1 -> cache.map(Restart),
      1 -> cache.map(Sweep),
      1 -> Gen.oneOf(1, EvictionPolicy.SameUse, EvictionPolicy.DecayAfter).map(Wait),
      1 -> Gen.zip(Gen.choose(0, 100), Gen.choose(0, PageSize - 1)).map((Damage.apply _).tupled)
    )
    Gen.listOfN(60, step)
  }

  /** Replaces a page's file by one with a wrong byte, as a failing disk would the next time it is read. */
  private def damage(tiers: Seq[TierSettings], file: Int, at: Int): Option[PageKey] = {
    val files = tiers.flatMap(filesOf).sorted
    if (files.isEmpty) None
    else {
      val victim = files(file % files.size)
      val wrong = victim.resolveSibling("wrong")
      Files.copy(victim, wrong)
      flip(wrong, at.toLong)
      Files.move(wrong, victim, StandardCopyOption.REPLACE_EXISTING)
      TierDirectory.keyOf(victim)
    }
  }

  /**
   * Runs a history.
   *
   * @param evicts
   *   whether pages may go that nobody forgot
   */
  private def check(history: List[Step], tiers: Seq[TierSettings], evicts: Boolean): Unit = {
    val caches = Array.fill(Caches)(cache(tiers: _*))
    val there = mutable.Set.empty[Int]
    // Whose bytes a page may have: its own, and those of any page that ever got its name. A cache that mapped it before
    // keeps what it mapped, since pages of one name have the same bytes everywhere but in this test.
    val bytesFrom = mutable.Map.empty[Int, Set[Int]].withDefault(Set(_))
    val doubtful = mutable.Set.empty[PageKey]
    def keyOf(page: Int): PageKey = objectOf(page).page(indexOf(page), PageSize)
    for (step <- history) {
      step match {
        case Fill(n, page, scanned) =>
          caches(n).claim(objectOf(page), indexOf(page), 0) match {
            case granted: Claim.Granted =>
              val kept = granted.fill(ByteBuffer.wrap(bytesOf(objectOf(page), indexOf(page))), scanned)
              if (kept) there += page else evicts shouldBe true
            case Claim.Arrived(arrived) =>
              arrived.close()
              there += page
            case Claim.Busy => fail("nobody else is fetching")
          }
        case Keep(n, page) =>
          caches(n).keep(objectOf(page), indexOf(page), ByteBuffer.wrap(bytesOf(objectOf(page), indexOf(page))))
          there += page
        case Rename(n, page, to) =>
          caches(n).rename(objectOf(page), indexOf(page), objectOf(to), indexOf(to))
          if (there.remove(page)) there += to
          bytesFrom(to) = bytesFrom(to) ++ bytesFrom(page)
          if (doubtful(keyOf(page))) doubtful += keyOf(to)
        case Find(n, page) =>
          read(caches(n), objectOf(page), indexOf(page)) match {
            case Some(bytes) =>
              there should contain(page)
              bytesFrom(page).exists(from => bytes == bytesOf(objectOf(from), indexOf(from)).toSeq) shouldBe true
            case None => if (!evicts && !doubtful(keyOf(page))) there should not contain page
          }
        case Forget(n, number) =>
          caches(n).forget(objectOf(number * PagesEach))
          there.filterInPlace(_ / PagesEach != number)
        case Restart(n) => caches(n) = cache(tiers: _*)
        case Sweep(n) => caches(n).sweep()
        case Wait(seconds) => now.addAndGet(seconds)
        case Damage(file, at) => doubtful ++= damage(tiers, file, at)
      }
      for (tier <- tiers if Files.exists(tier.directory)) {
        val status = tableOf(tier).status
        status.used should be <= status.budget
        status.pages shouldBe filesOf(tier).size
        status.used shouldBe status.pages * PageFootprint
      }
    }
  }

  private def histories(tiers: => Seq[TierSettings], evicts: Boolean)(without: PartialFunction[Step, Unit]): Unit =
    forAll(steps, minSuccessful(25)) { history =>
      try check(history.filterNot(without.isDefinedAt), tiers, evicts)
      finally tiers.foreach(tier => PrivateFiles.deleteTree(tier.directory))
    }

  test("with room for all, what was filled is found by every cache until it is forgotten") {
    histories(Seq(memory(100 * PageFootprint)), evicts = false)(PartialFunction.empty)
  }

  test("with room for some, what is found is right and the budget holds") {
    histories(Seq(memory(5 * PageFootprint)), evicts = true)(PartialFunction.empty)
  }

  private def twoTiers = Seq(memory(5 * PageFootprint), disk(100 * PageFootprint))

  test("with room for all on two tiers together, nothing that is read is lost on the way from memory to disk") {
    histories(twoTiers, evicts = false) { case Keep(_, _) => () }
  }

  test("what is written may push out of both tiers what was not read, and never makes a wrong page") {
    histories(twoTiers, evicts = true)(PartialFunction.empty)
  }
}
