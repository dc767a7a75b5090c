package io.penstock.skipping.join

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.join.ExpectedBytes.sharePerKeys
import io.penstock.skipping.testing.Properties

class ExpectedBytesSuite extends AnyFunSuite with Properties {

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
