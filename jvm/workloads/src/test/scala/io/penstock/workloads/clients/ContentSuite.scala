package io.penstock.workloads.clients

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.workloads.Mixed
import io.penstock.workloads.testing.Properties

class ContentSuite extends AnyFunSuite with Properties {

  private val content = new Content(7)

  /** As its documentation says it, a byte at a time. */
  private def reference(seed: Long, file: Long, position: Long): Byte = {
    val word = Mixed(seed, position % Content.BlockBytes / 8) ^
      Mixed(Mixed(~seed, file), position / Content.BlockBytes)
    (word >>> (8 * (position % 8))).toByte
  }

  private def bytes(file: Long, length: Int): Array[Byte] = {
    val out = new ByteArrayOutputStream
    new ContentStream(content).write(out, file, length.toLong)
    out.toByteArray
  }

  private def difference(found: Array[Byte], file: Long, length: Int): Option[String] =
    new ContentStream(content).difference(new ByteArrayInputStream(found), file, length.toLong)(_ => ())

  test("any range of any file is what the definition says, wherever it begins and ends") {
    forAll(Gen.choose(0L, Long.MaxValue), Gen.choose(0L, 1L << 45), Gen.choose(0, 300), Gen.long) {
      (file, offset, length, seed) =>
        val found = new Array[Byte](length + 1)
        new Content(seed).fill(file, offset, found, length)
        assert(found.take(length).toSeq == (0 until length).map(at => reference(seed, file, offset + at)))
        assert(found.last == 0)
    }
  }

  test("a range over the end of a block is what the definition says") {
    forAll(Gen.choose(1, 20), Gen.choose(0, 40)) { (before, after) =>
      val found = new Array[Byte](before + after)
      new Content(3).fill(1, 2L * Content.BlockBytes - before, found, found.length)
      assert(found.toSeq == found.indices.map(at => reference(3, 1, 2L * Content.BlockBytes - before + at)))
    }
  }

  test("no two blocks of one file or of two files are alike, so no store can save any of them") {
    val blocks =
      for (file <- 0L to 3L; written <- Seq(bytes(file, 4 * Content.BlockBytes)); at <- 0 to 3)
        yield written.slice(at * Content.BlockBytes, (at + 1) * Content.BlockBytes).toSeq
    assert(blocks.distinct.size == blocks.size)
  }

  test("what was written is right, in chunks or whole") {
    val length = 3 * (1 << 20) + 5
    assert(difference(bytes(9, length), 9, length).isEmpty)
    assert(difference(Array.empty, 9, 0).isEmpty)
  }

  test("a flipped bit is found wherever it is, and named by its place") {
    val length = (2 << 20) + 3
    val whole = bytes(4, length)
    forAll(Gen.choose(0, length - 1), Gen.choose(0, 7)) { (at, bit) =>
      val flipped = whole.clone()
      flipped(at) = (flipped(at) ^ (1 << bit)).toByte
      assert(difference(flipped, 4, length).contains(s"differs at byte $at"))
    }
  }

  test("a file that is short, too long, another one, or has two blocks exchanged is found") {
    val length = 2 * Content.BlockBytes
    val whole = bytes(4, length)
    assert(difference(whole.dropRight(1), 4, length).contains(s"ends after ${length - 1} of $length bytes"))
    assert(difference(Array.empty, 4, length).contains(s"ends after 0 of $length bytes"))
    assert(difference(whole :+ 0.toByte, 4, length).contains(s"goes on after its $length bytes"))
    assert(difference(whole, 5, length).exists(_.startsWith("differs at byte")))
    val (first, second) = whole.splitAt(Content.BlockBytes)
    assert(difference(second ++ first, 4, length).exists(_.startsWith("differs at byte")))
  }
}
