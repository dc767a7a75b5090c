package io.penstock.fs.locality

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, LocatedFileStatus}
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.penstock.fs.PenstockFileSystem
import io.penstock.fs.testing.{Properties, Requests, Store}

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

class RangesTest extends AnyFunSuite with Properties {

  private val ring = new HashRing(Seq("a", "b", "c", "d"))
  private val sizes = Gen.choose(1L, 3 * Ranges.Bytes)

  test("the hosts of a byte are the same, however the file is cut into splits") {
    forAll(sizes, sizes, sizes) { (fileLength, start, length) =>
      val whole = Ranges.locate(ring, "/file", fileLength, 0, Long.MaxValue)
      val part = Ranges.locate(ring, "/file", fileLength, start, length)
      part.foreach { found =>
        val same = whole.find(_.getOffset == found.getOffset)
        assert(same.exists(_.getHosts.sameElements(found.getHosts)) && same.exists(_.getLength == found.getLength))
      }
    }
  }

  test("the ranges of a file cover it once, from its first byte to its last") {
    forAll(sizes) { fileLength =>
      val ranges = Ranges.locate(ring, "/file", fileLength, 0, fileLength)
      assert(ranges.head.getOffset == 0)
      ranges.zip(ranges.drop(1)).foreach { case (a, b) => assert(a.getOffset + a.getLength == b.getOffset) }
      assert(ranges.last.getOffset + ranges.last.getLength == fileLength)
      ranges.foreach(range => assert(range.getHosts.distinct.length == Ranges.PreferredHosts))
    }
  }

  test("only ranges that hold an asked byte are answered") {
    val fileLength = 3 * Ranges.Bytes
    assert(Ranges.locate(ring, "/file", fileLength, Ranges.Bytes, 1).map(_.getOffset).toSeq == Seq(Ranges.Bytes))
    assert(Ranges.locate(ring, "/file", fileLength, fileLength, 1).isEmpty)
    assert(Ranges.locate(ring, "/file", fileLength, 0, 0).isEmpty)
    assert(Ranges.locate(ring, "/file", 0, 0, 10).isEmpty)
  }

  test("the ranges of one file are spread over the hosts") {
    val ranges = Ranges.locate(ring, "/big", 100 * Ranges.Bytes, 0, Long.MaxValue)
    assert(ranges.map(_.getHosts.head).toSet.size == 4)
  }
}

class LocatedFilesTest extends AnyFunSuite {

  private lazy val bucket = {
    val made = Store.newBucket()
    made.put("table/part-0", new Array[Byte](10))
    made
  }

  private def conf(hosts: String*): Configuration = {
    val conf = Store.conf()
    conf.set("fs.s3a.impl", classOf[PenstockFileSystem].getName)
    if (hosts.nonEmpty) conf.set(LiveHosts.Setting, hosts.mkString(", "))
    conf
  }

  private def listed(files: FileSystem): LocatedFileStatus = files.listFiles(bucket.path("table"), true).next()

  test("listings and statuses name the same two hosts, without another request") {
    Using.resource(Store.fileSystem(bucket, conf("a", "b", "c"))) { files =>
      val status = files.getFileStatus(bucket.path("table/part-0"))
      var hosts = Seq.empty[String]
      val requests = Requests.during { hosts = files.getFileBlockLocations(status, 0, 10).flatMap(_.getHosts).toSeq }
      assert(requests.isEmpty)
      assert(hosts.size == 2 && hosts.toSet.subsetOf(Set("a", "b", "c")))
      assert(listed(files).getBlockLocations.flatMap(_.getHosts).toSeq == hosts)
      assert(files.listLocatedStatus(bucket.path("table")).next().getBlockLocations.flatMap(_.getHosts).toSeq == hosts)
    }
  }

  test("where there is no choice of hosts the answer is S3A's") {
    for (settings <- Seq(conf(), conf("only"))) Using.resource(Store.fileSystem(bucket, settings)) { files =>
      assert(listed(files).getBlockLocations.flatMap(_.getHosts).toSeq == Seq("localhost"))
    }
  }
}
