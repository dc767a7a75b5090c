package io.penstock.workloads.reads

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.workloads.testing.Properties

class AccessSuite extends AnyFunSuite with Properties {

  private val MiB = 1L << 20
  private val sizes = Gen.choose(16L, 300L).map(_ * MiB)
  private val threads = Gen.choose(1, 9)

  test("threads share out every byte, none twice") {
    forAll(Gen.choose(0L, 1000000L), Gen.choose(1L, 70000L), threads) { (size, unit, parts) =>
      val shares = (0 until parts).map(Access.share(size, unit, _, parts))
      assert(shares.head._1 == 0 && shares.last._2 == size)
      assert(shares.zip(shares.tail).forall { case ((_, until), (from, _)) => until == from })
      assert(shares.forall { case (from, until) => from <= until && from % unit == 0 })
    }
  }

  test("random blocks are the same for any number of threads, none twice, all within the object") {
    forAll(sizes, threads) { (size, parts) =>
      val block = 64 << 10
      val one = Access.scattered(size, block, 4, 0, 1)
      val several = (0 until parts).flatMap(Access.scattered(size, block, 4, _, parts))
      assert(several == one)
      assert(one.map(_.offset).distinct.size == one.size && one.size == size / block / 4)
      assert(one.forall(stretch => stretch.offset % block == 0 && stretch.offset + stretch.length <= size))
      assert(one.map(_.offset) != one.map(_.offset).sorted)
    }
  }

  test("the columns of all row groups are read once, however many threads share them") {
    forAll(sizes, threads) { (size, parts) =>
      val one = Access.columns(size, 0, 1)
      assert((0 until parts).flatMap(Access.columns(size, _, parts)) == one)
      val stretches = one.flatten.sortBy(_.offset)
      assert(stretches.nonEmpty && stretches.last.offset + stretches.last.length <= size)
      assert(stretches.zip(stretches.tail).forall { case (a, b) => a.offset + a.length <= b.offset })
    }
  }
}
