package io.penstock.skipping.model

import java.util.Arrays

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.testing.Properties

/** Keys against sets of values, in a part of each domain that is small enough to look at every value of. */
class RangeSetTest extends AnyFunSuite with Properties {

  import RangeSetTest._

  /** What both domains must be able to do. */
  private def behavesAsSets[T](name: String, universe: Seq[T], keys: Gen[RangeSet])(
      has: (RangeSet, T) => Boolean
  ): Unit = {
    test(s"$name: a value is either in a set or in its complement") {
      forAll(keys) { set =>
        val others = set.complement
        universe.foreach(value => assert(has(set, value) != has(others, value)))
        assertOrdered(others)
        assert(set.isEverything == others.isEmpty)
      }
    }

    test(s"$name: a value is in an intersection if it is in both sets, in a union if it is in one") {
      forAll(keys, keys) { (a, b) =>
        val (both, either) = (a.intersect(b), a.union(b))
        universe.foreach { value =>
          assert(has(both, value) == (has(a, value) && has(b, value)))
          assert(has(either, value) == (has(a, value) || has(b, value)))
        }
        Seq(both, either).foreach(assertOrdered)
      }
    }

    test(s"$name: compressed keys are as few as asked for and hold every value they held") {
      forAll(keys, Gen.choose(1, 6)) { (set, limit) =>
        val fewer = set.compressed(limit)
        assert(fewer.size == math.min(limit, set.size))
        assertOrdered(fewer)
        universe.filter(has(set, _)).foreach(value => assert(has(fewer, value)))
      }
    }
  }

  behavesAsSets("numbers", numbers, numberKeys)((keys, value) => contains(keys, value))
  behavesAsSets("bytes", strings, byteKeys)((keys, value) => contains(keys, value))

  test("points are the values given, whatever their order, and neighbours are one interval") {
    forAll(Gen.listOf(Gen.oneOf(numbers))) { values =>
      val keys = RangeSet.Integral.points(values.toArray)
      numbers.foreach(value => assert(contains(keys, value) == values.contains(value)))
      assertOrdered(keys)
    }
    forAll(Gen.listOf(Gen.oneOf(strings))) { values =>
      val keys = RangeSet.Bytes.points(values.toArray)
      strings.foreach(value => assert(contains(keys, value) == values.exists(Arrays.equals(_, value))))
      assertOrdered(keys)
    }
  }

  test("the keys of a prefix are all that start with it, also where its last bytes cannot be raised") {
    forAll(Gen.oneOf(strings)) { start =>
      val keys = RangeSet.Bytes.prefix(start)
      strings.foreach(value => assert(contains(keys, value) == value.startsWith(start)))
      assertOrdered(keys)
    }
  }

  test("an interval of bytes is a point only if one value is in it") {
    forAll(byteKeys) {
      case keys: RangeSet.Bytes =>
        for (i <- 0 until keys.size) {
          val held = strings.filter(contains(RangeSet.Bytes.interval(keys.lows(i), keys.highs(i)), _))
          // Of what a longest value is followed by, nothing is among these.
          if (held.headOption.exists(_.length < Longest)) assert(keys.isPoint(i) == (held.length == 1))
        }
      case _ => fail()
    }
  }

  test("the widest gaps stay open when keys are compressed, also where they are wider than a signed number") {
    val keys = RangeSet.Integral.points(Array(Long.MinValue, 0, 2, 10, 12, Long.MaxValue)).compressed(4)
    assert(keys.lows.toSeq == Seq(Long.MinValue, 0, 10, Long.MaxValue))
    assert(keys.highs.toSeq == Seq(Long.MinValue, 2, 12, Long.MaxValue))
    val names = Seq("item-0001", "item-0002", "item-7000", "item-7001").map(_.getBytes)
    val ranges = RangeSet.Bytes.points(names.toArray).compressed(2)
    assert(ranges.lows.map(new String(_)).toSeq == Seq("item-0001", "item-7000"))
  }
}

object RangeSetTest {
  private val Longest = 3

  /** Around zero and at both ends. */
  val numbers: Seq[Long] =
    (-6L to 6L) ++ (0L to 3L).map(Long.MinValue + _) ++ (0L to 3L).map(Long.MaxValue - _)

  /** All of up to three bytes, of those where the order changes. */
  val strings: Seq[Array[Byte]] = {
    val alphabet = Seq[Byte](0, 1, 'a', 127, -128, -1)
    Iterator
      .iterate(Seq(Array.emptyByteArray))(_.flatMap(start => alphabet.map(start :+ _)))
      .take(Longest + 1)
      .toSeq
      .flatten
  }

  val numberKeys: Gen[RangeSet] = Gen.oneOf(
    Gen.listOf(Gen.oneOf(numbers)).map(values => RangeSet.Integral.points(values.toArray)),
    Gen
      .listOfN(6, Gen.zip(Gen.oneOf(numbers), Gen.oneOf(numbers)))
      .map(_.map { case (low, high) => RangeSet.Integral.interval(low, high) }.reduce[RangeSet](_ union _))
  )

  val byteKeys: Gen[RangeSet] = Gen.oneOf(
    Gen.listOf(Gen.oneOf(strings)).map(values => RangeSet.Bytes.points(values.toArray)),
    Gen
      .listOfN(4, Gen.zip(Gen.oneOf(strings), Gen.oneOf(strings), Gen.oneOf(true, false)))
      .map(_.map { case (low, high, bounded) => RangeSet.Bytes.interval(low, if (bounded) high else null) })
      .map(intervals => intervals.tail.foldLeft[RangeSet](intervals.head)(_ intersect _.complement))
  )

  def contains(keys: RangeSet, value: Long): Boolean = keys match {
    case these: RangeSet.Integral =>
      (0 until keys.size).exists(i => these.lows(i) <= value && value <= these.highs(i))
    case _ => false
  }

  def contains(keys: RangeSet, value: Array[Byte]): Boolean = keys match {
    case bytes: RangeSet.Bytes =>
      (0 until keys.size).exists { i =>
        Arrays.compareUnsigned(bytes.lows(i), value) <= 0 &&
        (bytes.highs(i) == null || Arrays.compareUnsigned(value, bytes.highs(i)) < 0)
      }
    case _ => false
  }

  /** What is promised of the arrays. */
  private def assertOrdered(keys: RangeSet): Unit = keys match {
    case these: RangeSet.Integral =>
      for (i <- 0 until keys.size) {
        assert(these.lows(i) <= these.highs(i))
        assert(i == 0 || these.highs(i - 1) < these.lows(i) - 1)
      }
    case bytes: RangeSet.Bytes =>
      for (i <- 0 until keys.size) {
        assert(bytes.highs(i) == null || Arrays.compareUnsigned(bytes.lows(i), bytes.highs(i)) < 0)
        assert(i == 0 || Arrays.compareUnsigned(bytes.highs(i - 1), bytes.lows(i)) < 0)
      }
  }
}
