package io.penstock.skipping.layout

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.filter.Keys
import io.penstock.skipping.index.Value
import io.penstock.skipping.testing.Properties

class ColumnSampleSuite extends AnyFunSuite with Properties {

  private val values = Gen.listOf(Gen.option(Gen.choose(0L, 30L)))

  private def sample(values: Seq[Option[Long]]) = ColumnSample.of(values.map(_.map(Value.Integral(_))))

  test("the share of rows in touched ranges is what counting each row gives, nulls being in the first") {
    forAll(values, Gen.choose(1, 8), Gen.listOf(Gen.choose(0L, 30L))) { (values, count, asked) =>
      val column = sample(values)
      val ranges = column.ranges(count)
      val keys = Keys.Integral.points(asked.toArray)
      val touched = ranges.touched(keys)
      val rows = values.count(value => touched.get(value.fold(0)(number => ranges.of(Value.Integral(number)))))
      val expected = if (values.isEmpty) 1.0 else rows.toDouble / values.size
      assert(column.share(ranges, keys) == expected)
    }
  }

  test("a range for each value holds that value alone") {
    forAll(values) { values =>
      val column = sample(values)
      for (number <- values.flatten.distinct) {
        val smallest = values.flatten.min == number
        val expected = values.count(value => value.contains(number) || value.isEmpty && smallest)
        assert(column.share(column.singles, Keys.Integral.interval(number, number)) == expected.toDouble / values.size)
      }
    }
  }

  test("ranges of unlike values hold about as many rows each") {
    forAll(Gen.choose(1, 20)) { count =>
      val ranges = sample((1L to 1000).map(Some(_))).ranges(count)
      val rows = (1L to 1000).groupBy(number => ranges.of(Value.Integral(number))).values.map(_.size)
      assert(rows.size == count && rows.max - rows.min <= 1)
    }
  }

  test("a few values that come often are known exactly; values seen once stand for many") {
    assert(sample(Seq.fill(100)(Seq(1L, 2L, 3L)).flatten.map(Some(_))).distinct(1000000) == 3)
    val unique = sample((1L to 100).map(Some(_))).distinct(10000)
    assert(unique == 1000)
  }
}
