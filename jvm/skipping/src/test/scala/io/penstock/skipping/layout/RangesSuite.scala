package io.penstock.skipping.layout

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.filter.Keys
import io.penstock.skipping.index.Value
import io.penstock.skipping.testing.Properties

class RangesSuite extends AnyFunSuite with Properties {

  private val numbers = Gen.oneOf(Gen.choose(-20L, 20L), Gen.oneOf(Long.MinValue, Long.MaxValue))
  private val texts = Gen.listOf(Gen.oneOf(0, 1, 97, 98, -1)).map(_.take(3).map(_.toByte).toArray)
  private val columns: Gen[Seq[Value]] = Gen.oneOf(
    Gen.listOf(numbers.map(Value.Integral(_): Value)),
    Gen.listOf(texts.map(Value.Bytes(_): Value))
  )

  private def keys(values: Seq[Value]): Keys = values match {
    case Value.Bytes(_) +: _ => Keys.Bytes.points(values.collect { case Value.Bytes(bytes) => bytes }.toArray)
    case _ => Keys.Integral.points(values.collect { case Value.Integral(number) => number }.toArray)
  }

  test("a key that a range holds is never missed by it, whatever the cuts") {
    forAll(columns, Gen.choose(1, 9)) { (values, count) =>
      val ranges = ColumnSample.of(values.map(Some(_))).ranges(count)
      assert(values.isEmpty || ranges.count == count)
      for (value <- values) assert(ranges.touched(keys(Seq(value))).get(ranges.of(value)))
    }
  }

  test("single keys touch their own ranges and no others") {
    forAll(columns, Gen.choose(1, 9), Gen.choose(0, 3)) { (values, count, asked) =>
      val ranges = ColumnSample.of(values.map(Some(_))).ranges(count)
      // Neighbours become one interval: every second number has none, nor have texts of which none ends in a zero byte.
      val few = values
        .filter {
          case Value.Integral(number) => number % 2 == 0
          case Value.Bytes(bytes) => !bytes.lastOption.contains(0.toByte)
          case _ => true
        }
        .take(asked)
      val touched = ranges.touched(keys(few))
      assert(touched.stream.toArray.toSet == few.map(ranges.of).toSet)
    }
  }

  test("neighbours touch no other range that holds a value") {
    forAll(columns, Gen.choose(1, 9), Gen.choose(0, 3)) { (values, count, asked) =>
      assertTouched(values, count, values.take(asked))
    }
    // The cuts are "", "\u0000" and "\u0000" again: the keys are one interval, in which the third range is empty.
    val least = Seq(Value.Bytes(Array(0)), Value.Bytes(Array()))
    assertTouched(least, 4, least)
  }

  private def assertTouched(values: Seq[Value], count: Int, asked: Seq[Value]): Unit = {
    val ranges = ColumnSample.of(values.map(Some(_))).ranges(count)
    val empty = (1 until ranges.cuts.size).filter(i => Value.ordering.equiv(ranges.cuts(i - 1), ranges.cuts(i)))
    assert(ranges.touched(keys(asked)).stream.toArray.toSet -- empty == asked.map(ranges.of).toSet)
  }

  test("ranges follow one another: the greater value is never in an earlier range") {
    forAll(columns, Gen.choose(1, 9)) { (values, count) =>
      val sorted = values.sorted
      val places = sorted.map(ColumnSample.of(values.map(Some(_))).ranges(count).of)
      assert(places == places.sorted)
    }
  }

  test("an upper bound that is not among the keys does not touch the range it begins") {
    val ranges = new Ranges(IndexedSeq("b", "c").map(text => Value.Bytes(text.getBytes)))
    assert(ranges.touched(Keys.Bytes.interval("b".getBytes, "c".getBytes)).stream.toArray.toSeq == Seq(1))
    assert(ranges.touched(Keys.Bytes.interval("b".getBytes, null)).stream.toArray.toSeq == Seq(1, 2))
  }
}
