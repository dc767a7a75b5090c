package io.penstock.skipping.index

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.model.{Domain, RangeSet, Value}
import io.penstock.skipping.testing.Properties

/** Searching, against looking at everything. */
class RankEncodingTest extends AnyFunSuite with Properties {

  private val extremes = Seq(Long.MinValue, Long.MinValue + 1, -1L, 0L, 1L, Long.MaxValue - 1, Long.MaxValue)

  /** Close together, far apart and at both ends. */
  private val code: Gen[Long] =
    Gen.frequency(6 -> Gen.choose(-300L, 300L), 2 -> Gen.choose(Long.MinValue, Long.MaxValue), 1 -> Gen.oneOf(extremes))

  private val ranges: Gen[CodeRanges] = for {
    count <- Gen.oneOf(Gen.choose(0, 5), Gen.choose(0, 500))
    ends <- Gen.listOfN(count, Gen.zip(code, Gen.choose(0L, 3L)))
  } yield {
    val keys = ends.map { case (low, width) =>
      RangeSet.Integral.interval(low, if (low > Long.MaxValue - width) Long.MaxValue else low + width)
    }
    val all = keys.foldLeft[RangeSet](RangeSet.Integral.Nothing)(_ union _).asInstanceOf[RangeSet.Integral]
    new NumberRanges(all.lows, all.highs)
  }

  private def firstNotBelow(ranges: CodeRanges, code: Long): Int =
    ranges.highs.indices.find(ranges.highs(_) >= code).getOrElse(ranges.size)

  test("the range found is the first that does not end below the code") {
    forAll(ranges, Gen.listOf(code)) { (ranges, codes) =>
      (codes ++ extremes ++ ranges.highs ++ ranges.lows).foreach { code =>
        assert(ranges.from(code) === firstNotBelow(ranges, code), s"$code in ${ranges.highs.toSeq}")
      }
    }
  }

  test("a list meets the ranges where one of its codes is in one of them, whatever other lists are beside it") {
    forAll(ranges, Gen.listOf(code), Gen.listOf(code), Gen.listOf(code)) { (ranges, before, list, after) =>
      val sorted = list.sorted.distinct
      val lists = ValueLists.of(Iterator(before.sorted, sorted, Nil, after.sorted).map(_.toArray))
      assert(lists.has(1) === sorted.nonEmpty)
      assert(!lists.has(2))
      val expected =
        sorted.exists(code => ranges.lows.indices.exists(i => ranges.lows(i) <= code && code <= ranges.highs(i)))
      assert(ranges.meets(lists.values, lists.start(1), lists.end(1)) === expected)
    }
  }

  test("a list of ranks meets keys of bytes where one of its values is among them, also between two neighbours") {
    val bytes = Gen.listOf(Gen.choose(0, 2)).map(_.map(_.toByte).toArray.take(4))
    val intervals =
      Gen.listOf(Gen.oneOf(bytes.map(at => RangeSet.Bytes.points(Array(at))), bytes.map(RangeSet.Bytes.prefix)))
    forAll(Gen.listOf(bytes), Gen.listOf(bytes), intervals) { (others, values, intervals) =>
      val keys = intervals.foldLeft[RangeSet](RangeSet.Bytes.Nothing)(_ union _)
      val codes = RankEncoding.of(Domain.Bytes, (others ++ values).iterator.map(Value.Bytes(_)))
      val list = values.map(value => codes.code(Value.Bytes(value))).distinct.sorted.toArray
      val expected = values.exists(value => !keys.intersect(RangeSet.Bytes.points(Array(value))).isEmpty)
      assert(codes.of(keys).get.meets(list, 0, list.length) === expected)
    }
  }
}
