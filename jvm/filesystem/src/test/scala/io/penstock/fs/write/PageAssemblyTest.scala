package io.penstock.fs.write

import java.nio.ByteBuffer

import scala.collection.mutable
import scala.util.Random

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.testing.Properties

class PageAssemblyTest extends AnyFunSuite with Properties {

  private val PageSize = 16

  private val pieces =
    Gen.listOf(Gen.frequency(1 -> Gen.const(0), 5 -> Gen.choose(1, 3 * PageSize), 1 -> Gen.const(PageSize)))

  /** The pages that come of these pieces, of which those named are not to be had. */
  private def pages(data: Array[Byte], sizes: Seq[Int], lost: Set[Int]): Map[Long, Seq[Byte]] = {
    val kept = mutable.Map.empty[Long, Seq[Byte]]
    def keep(index: Long, page: ByteBuffer): Unit = {
      val bytes = new Array[Byte](page.remaining)
      page.get(bytes)
      assert(kept.put(index, bytes.toSeq).isEmpty, s"page $index was kept twice")
    }
    val assembly = new PageAssembly(data.length.toLong, PageSize, keep)
    for (((size, start), number) <- sizes.zip(sizes.scanLeft(0)(_ + _)).zipWithIndex)
      assembly.add(size.toLong) { (position, into) =>
        into.put(data, start + position.toInt, into.remaining)
        !lost.contains(number)
      }
    kept.toMap
  }

  test("pieces of any size give the pages that the whole gives") {
    forAll(pieces, Gen.long) { (sizes, seed) =>
      val data = new Random(seed).nextBytes(sizes.sum)
      val expected = data.grouped(PageSize).zipWithIndex.map { case (page, index) => index.toLong -> page.toSeq }.toMap
      assert(pages(data, sizes, Set.empty) == expected)
    }
  }

  test("a piece that is lost takes the pages that need it, and no other") {
    forAll(pieces, Gen.choose(0, 10), Gen.long) { (sizes, lost, seed) =>
      val data = new Random(seed).nextBytes(sizes.sum)
      val starts = sizes.scanLeft(0)(_ + _)
      val damaged = sizes.indices.filter(_ == lost).flatMap(i => starts(i) until starts(i + 1)).map(_ / PageSize).toSet
      val expected = data
        .grouped(PageSize)
        .zipWithIndex
        .collect {
          case (page, index) if !damaged(index) => index.toLong -> page.toSeq
        }
        .toMap
      assert(pages(data, sizes, Set(lost)) == expected)
    }
  }
}
