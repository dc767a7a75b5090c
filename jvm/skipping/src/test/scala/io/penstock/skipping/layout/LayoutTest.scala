package io.penstock.skipping.layout

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.layout.Placement.SampledRow
import io.penstock.skipping.model.{RangeSet, Value}
import io.penstock.skipping.testing.Properties

class LayoutTest extends AnyFunSuite with Properties {

  private val rows = Gen.listOf(for {
    partition <- Gen.oneOf[Any](1, 2, 3, null)
    a <- Gen.option(Gen.choose(0L, 50L))
    b <- Gen.option(Gen.choose(0L, 50L))
  } yield SampledRow(Seq(partition), Seq(a, b).map(_.map(Value.Integral(_)))))

  private val layout = Layout(Seq("p"), Seq(RangeLevel("a"), RangeLevel("b")))

  test("every row has an object, whether its partition was in the sample or not; partitions share none") {
    forAll(rows, Gen.choose(1L, 100L)) { (rows, bytes) =>
      val placement = Placement.of(layout, rows, bytes, 10)
      val objects = rows.map(row => row.partition -> placement.of(row.partition, row.values))
      assert(objects.forall { case (_, number) => number >= 0 && number < placement.objects })
      assert(objects.groupMap(_._2)(_._1).values.forall(_.distinct.size == 1))
      val unknown = placement.of(Seq(99), Seq(None, None))
      assert(unknown >= 0 && unknown < placement.objects)
    }
  }

  test("objects are about as large as asked for, in large partitions and small ones, whatever their values are") {
    val sample = for {
      (partition, rows) <- Seq("large" -> 9000, "small" -> 900, "tiny" -> 100)
      i <- 0 until rows
    } yield SampledRow(Seq(partition), Seq(Some(Value.Integral(i.toLong))))
    val placement = Placement.of(Layout(Seq("p"), Seq(RangeLevel("a"))), sample, bytes = 1000, objectBytes = 30)
    val counts = placement.partitions.map { case (partition, cells) => partition.head -> cells.count }
    assert(counts == Map("large" -> 30, "small" -> 3, "tiny" -> 1))
    val rows = sample.groupMapReduce(row => placement.of(row.partition, row.values))(_ => 1)(_ + _)
    assert(rows.size == 34 && rows.values.max == 300)
  }

  test("a partition of which the sample has few rows is cut where the table is") {
    val sample = for {
      (partition, rows) <- Seq("large" -> 1000, "small" -> 10)
      i <- 0 until rows
    } yield SampledRow(Seq(partition), Seq(Some(Value.Integral(i.toLong))))
    val placement = Placement.of(Layout(Seq("p"), Seq(RangeLevel("a", Some(2)))), sample, 1010, 100)
    val objects = sample.filter(_.partition == Seq("small")).map(row => placement.of(row.partition, row.values))
    assert(objects.distinct.size == 1)
  }

  test("a table without partitions is one of them; an empty one is one object") {
    val sample = (0 until 100).map(i => SampledRow(Nil, Seq(Some(Value.Integral(i.toLong)))))
    assert(Placement.of(Layout(Nil, Seq(RangeLevel("a", Some(4)))), sample, 1000, 10).objects == 4)
    val empty = Placement.of(Layout(Nil, Seq(RangeLevel("a"))), Nil, 0, 10)
    assert(empty.objects == 1 && empty.of(Nil, Seq(None)) == 0)
  }

  test("a level's own count stands, the others share what is left evenly") {
    assert(Placement.rangeCounts(100, Seq(Some(4), None)) == Seq(4, 25))
    assert(Placement.rangeCounts(100, Seq(None, None)) == Seq(10, 10))
    assert(Placement.rangeCounts(0.2, Seq(None)) == Seq(1))
    assert(Placement.rangeCounts(2, Seq(Some(8), None)) == Seq(8, 1))
  }

  test("each task has a number that Spark's hash partitioning sends to it") {
    for (tasks <- Seq(1, 2, 7, 500)) {
      val numbers = ObjectOf.hashedTo(tasks)
      assert(numbers.size == tasks && numbers.distinct.size == tasks)
    }
  }

  private val numbers = Gen.oneOf(Gen.choose(-20L, 20L), Gen.oneOf(Long.MinValue, Long.MaxValue))
  private val texts = Gen.listOf(Gen.oneOf(0, 1, 97, 98, -1)).map(_.take(3).map(_.toByte).toArray)
  private val columns: Gen[Seq[Value]] = Gen.oneOf(
    Gen.listOf(numbers.map(Value.Integral(_): Value)),
    Gen.listOf(texts.map(Value.Bytes(_): Value))
  )

  private def keys(values: Seq[Value]): RangeSet = values match {
    case Value.Bytes(_) +: _ => RangeSet.Bytes.points(values.collect { case Value.Bytes(bytes) => bytes }.toArray)
    case _ => RangeSet.Integral.points(values.collect { case Value.Integral(number) => number }.toArray)
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
    val ranges = new CutPoints(IndexedSeq("b", "c").map(text => Value.Bytes(text.getBytes)))
    assert(ranges.touched(RangeSet.Bytes.interval("b".getBytes, "c".getBytes)).stream.toArray.toSeq == Seq(1))
    assert(ranges.touched(RangeSet.Bytes.interval("b".getBytes, null)).stream.toArray.toSeq == Seq(1, 2))
  }

  private val values = Gen.listOf(Gen.option(Gen.choose(0L, 30L)))

  private def sample(values: Seq[Option[Long]]) = ColumnSample.of(values.map(_.map(Value.Integral(_))))

  test("the share of rows in touched ranges is what counting each row gives, nulls being in the first") {
    forAll(values, Gen.choose(1, 8), Gen.listOf(Gen.choose(0L, 30L))) { (values, count, asked) =>
      val column = sample(values)
      val ranges = column.ranges(count)
      val keys = RangeSet.Integral.points(asked.toArray)
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
        assert(
          column.share(column.singles, RangeSet.Integral.interval(number, number)) == expected.toDouble / values.size
        )
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
