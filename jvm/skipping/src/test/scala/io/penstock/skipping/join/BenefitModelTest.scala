package io.penstock.skipping.join

import org.apache.spark.sql.types.LongType
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.index.ColumnSummary
import io.penstock.skipping.join.BenefitModel.{BroadcastOnly, BroadcastOrSecondRun, Estimate, KeyUse}
import io.penstock.skipping.join.ExpectedBytes.sharePerKeys
import io.penstock.skipping.model.IndexedColumn
import io.penstock.skipping.testing.Properties

/** What is attempted and what is not, against the same said as a table. */
class BenefitModelTest extends AnyFunSuite with Properties {

  private val MaxFilesPerKey = 0.5
  private val SecondRunBytes = 1000L

  private val benefit = new BenefitModel(MaxFilesPerKey, SecondRunBytes)

  private val estimates: Gen[Estimate] = for {
    bytes <- Gen.oneOf(0L, 1L, 500L, SecondRunBytes, SecondRunBytes + 1, Long.MaxValue)
    restricted <- Gen.oneOf(true, false)
    repeatable <- Gen.oneOf(true, false)
    broadcast <- Gen.oneOf(true, false)
  } yield Estimate("dates", BigInt(bytes), restricted, repeatable, broadcast)

  private val targets: Gen[BigInt] = Gen.oneOf(0L, 1L, 2L, 501L, SecondRunBytes + 2, Long.MaxValue).map(BigInt(_))

  private def expected(source: Estimate, target: BigInt): Option[KeyUse] = {
    val pays = source.bytes <= SecondRunBytes && source.bytes < target
    (source.restricted && source.repeatable, source.broadcast, pays) match {
      case (false, _, _) => None
      case (true, _, true) => Some(BroadcastOrSecondRun)
      case (true, true, false) => Some(BroadcastOnly)
      case (true, false, false) => None
    }
  }

  test(
    "keys are used of a side that is filtered and can be run again, from its broadcast or where a run of it is cheap"
  ) {
    forAll(estimates, targets) { (source, target) =>
      assert(benefit.keys(source, target).toOption === expected(source, target))
    }
  }

  test("every join that is not attempted is reported with its tables") {
    forAll(estimates, targets) { (source, target) =>
      benefit.keys(source, target).left.foreach(reason => assert(reason.contains("dates")))
    }
  }

  test("with a limit of no bytes nothing is run a second time") {
    val never = new BenefitModel(MaxFilesPerKey, 0)
    forAll(estimates.suchThat(_.bytes > 0), targets) { (source, target) =>
      assert(!never.keys(source, target).contains(BroadcastOrSecondRun))
    }
  }

  private val shares: Gen[Double] = Gen.oneOf(Gen.oneOf(0.0, MaxFilesPerKey, 1.0), Gen.choose(0.0, 1.0))

  private def summary(share: Double) = Some(ColumnSummary(IndexedColumn("day", LongType), share, bounded = 1))

  test("files are skipped by a covered column of which a key is in few of several files") {
    forAll(shares, Gen.choose(0, 5)) { (share, files) =>
      val refused = benefit.refuseColumn(summary(share), files)
      assert(refused.isEmpty === (files > 1 && share <= MaxFilesPerKey))
    }
  }

  test("a column that the index does not cover is refused, however many files there are") {
    forAll(Gen.choose(0, 5))(files => assert(benefit.refuseColumn(None, files).isDefined))
  }
}

class ExpectedBytesTest extends AnyFunSuite with Properties {

  private val counts: Gen[BigInt] = Gen.chooseNum(0L, Long.MaxValue, 1L, 30L, 1800L).map(BigInt(_))
  private val shares: Gen[Double] = Gen.chooseNum(0.0, 1.0)

  test("a share is one, of however many keys") {
    forAll(counts, Gen.option(counts), shares) { (keys, distinct, filesPerKey) =>
      val share = sharePerKeys(keys, distinct, filesPerKey)
      assert(share >= 0 && share <= 1)
    }
  }

  test("more keys are never in fewer files") {
    forAll(counts, counts, Gen.option(counts), shares) { (some, others, distinct, filesPerKey) =>
      assert(
        sharePerKeys(some.min(others), distinct, filesPerKey) <= sharePerKeys(some.max(others), distinct, filesPerKey)
      )
    }
  }

  test("no key is in no file, and one in as many as one key is in") {
    forAll(Gen.option(counts), shares) { (distinct, filesPerKey) =>
      assert(sharePerKeys(0, distinct, filesPerKey) === 0)
      assert(sharePerKeys(1, distinct, filesPerKey) === filesPerKey)
    }
  }

  test(
    "a month of five years in files of a tenth of them each is in less than two tenths, and not in three times all"
  ) {
    assert(sharePerKeys(30, Some(1800), 0.1) === 30.0 / 1800 + 0.1)
    assert(sharePerKeys(30, None, 0.1) === 1.0)
  }
}
