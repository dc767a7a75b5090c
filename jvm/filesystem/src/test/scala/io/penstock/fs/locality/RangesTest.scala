package io.penstock.fs.locality

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.testing.Properties

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
