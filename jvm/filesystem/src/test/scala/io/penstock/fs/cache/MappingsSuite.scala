package io.penstock.fs.cache

import java.nio.ByteBuffer
import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.matchers.should.Matchers

class MappingsSuite extends AnyFunSuite with Matchers with TemporaryTiers {

  private val Limit = 8

  /** A tier with pages in it, and what one process maps of them. */
  private class Fixture(pages: Int) {
    private val all = identity("a", pages.toDouble)
    val tier = new Tier(memory(1L << 30), None, None, () => now.get, restMs = 0)
    val mappings = new Mappings(Limit)
    for (index <- 0 until pages) {
      val data = ByteBuffer.wrap(bytesOf(all, index.toLong))
      tier.insert(label(index).key, label(index), data, EvictionPolicy.Read) shouldBe Tier.Kept
    }

    def label(index: Int): PageLabel = PageLabel(all, index.toLong, PageSize)

    /** The page with a pin, mapped if it was not. */
    def pinned(index: Int): MappedPage = mappings.pinned(label(index).key) match {
      case null => mappings.share(tier.map(label(index).key, label(index)))
      case page => page
    }

    def use(index: Int): Unit = pinned(index).unpin()

    def isMapped(index: Int): Boolean = mappings.pinned(label(index).key) match {
      case null => false
      case page =>
        page.unpin()
        true
    }
  }

  /** What the kernel says this process has mapped below the test's directory, removed files included. */
  private def mappedFiles: Int =
    Files
      .readAllLines(Path.of("/proc/self/maps"))
      .asScala
      .count(_.contains(directory.resolve("memory/v1/pages").toString))

  test("no more pages stay mapped than the limit, and those found again are those that stay") {
    val fixture = new Fixture(40)
    for (index <- 0 until 4) fixture.use(index)
    for (index <- 4 until 40) {
      for (popular <- 0 until 4) fixture.use(popular)
      fixture.use(index)
      fixture.mappings.size should be <= Limit
    }
    for (popular <- 0 until 4) fixture.isMapped(popular) shouldBe true
    for (_ <- 1 to 2) fixture.mappings.sweep()
    mappedFiles shouldBe fixture.mappings.size
  }

  test("the memory of an evicted page is given back by the second sweep, or when its last reader is done") {
    val fixture = new Fixture(2)
    fixture.use(0)
    val read = fixture.pinned(1)
    mappedFiles shouldBe 2
    for (index <- 0 to 1) fixture.tier.forget(fixture.label(index).key)
    fixture.mappings.sweep()
    withClue("its reader may be closing it this very moment")(mappedFiles shouldBe 2)
    fixture.mappings.sweep()
    mappedFiles shouldBe 1
    read.check(0, PageSize) shouldBe true
    read.unpin()
    fixture.mappings.sweep()
    mappedFiles shouldBe 0
    read.pin() shouldBe false
  }

  test("two threads that map one page at once share one mapping") {
    val fixture = new Fixture(1)
    val label = fixture.label(0)
    val (first, second) = (fixture.tier.map(label.key, label), fixture.tier.map(label.key, label))
    fixture.mappings.share(first) should be theSameInstanceAs first
    fixture.mappings.share(second) should be theSameInstanceAs first
    mappedFiles shouldBe 1
  }
}
