package io.penstock.skipping.layout

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.index.Value
import io.penstock.skipping.layout.Placement.SampledRow
import io.penstock.skipping.testing.Properties

class PlacementSuite extends AnyFunSuite with Properties {

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
}
