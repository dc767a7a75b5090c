package io.penstock.fs.locality

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

class HashRingTest extends AnyFunSuite with ScalaCheckPropertyChecks {

  private val names = (0 until 4000).map(i => s"/warehouse/store_sales/part-$i.parquet#0")
  private val clusters = Gen.choose(2, 12).flatMap(n => Gen.choose(0, 1000).map(first => hosts(first, n)))

  private def hosts(first: Int, count: Int): Vector[String] =
    (first until first + count).map(i => s"worker-$i").toVector

  test("every process that knows the same hosts prefers the same, whatever order it learnt them in") {
    forAll(clusters, Gen.long) { (hosts, seed) =>
      val shuffled = new scala.util.Random(seed).shuffle(hosts ++ hosts.take(1))
      val (one, other) = (new HashRing(hosts), new HashRing(shuffled))
      names.take(200).foreach(name => assert(one.preferred(name, 2) == other.preferred(name, 2)))
    }
  }

  test("a host that goes leaves only its own names, and the second choice becomes the first") {
    forAll(clusters) { hosts =>
      val (before, after) = (new HashRing(hosts), new HashRing(hosts.tail))
      for (name <- names.take(1000)) {
        val remaining = before.preferred(name, hosts.size).filter(_ != hosts.head)
        assert(after.preferred(name, hosts.size) == remaining)
      }
    }
  }

  test("a host that comes takes its fair share and no more") {
    forAll(clusters) { hosts =>
      val (before, after) = (new HashRing(hosts.tail), new HashRing(hosts))
      val moved = names.count(name => before.preferred(name, 1) != after.preferred(name, 1))
      val fair = names.size.toDouble / hosts.size
      assert(moved < 1.5 * fair && moved > 0.5 * fair, s"$moved of ${names.size} moved with ${hosts.size} hosts")
    }
  }

  test("no host has half as much again as its share") {
    forAll(clusters) { hosts =>
      val ring = new HashRing(hosts)
      val shares = names.groupBy(name => ring.preferred(name, 1).head)
      hosts.foreach(host => assert(shares(host).size < 1.5 * names.size / hosts.size))
    }
  }

  test("preferred hosts are different ones, and no more than there are") {
    assert(new HashRing(Nil).preferred("name", 2).isEmpty)
    assert(new HashRing(Seq("only")).preferred("name", 2) == Vector("only"))
    forAll(clusters)(hosts => assert(new HashRing(hosts).preferred("name", 2).distinct.size == 2))
  }
}
