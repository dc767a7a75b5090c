package io.penstock.fs.cache

import java.nio.ByteBuffer
import java.nio.file.Files

import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.matchers.should.Matchers

class PageCacheSuite extends AnyFunSuite with Matchers with TemporaryTiers {

  private val Roomy = 64L * 1024 * 1024

  test("a page that was filled is found by every cache on the same directory, and after a restart") {
    val of = identity("a", 2.5)
    val first = cache(memory(Roomy))
    for (index <- 0 to 2) fill(first, of, index)
    val second = cache(memory(Roomy))
    for (index <- 0 to 2; reader <- Seq(first, second)) read(reader, of, index) shouldBe Some(bytesOf(of, index).toSeq)
    second.find(of, 3) shouldBe None
  }

  test("any range of a page reads the same into arrays and into buffers on and off the heap") {
    val of = identity("a", 1)
    fill(cache(memory(Roomy)), of, 0)
    val whole = bytesOf(of, 0)
    for ((position, length) <- Seq(0 -> 1, 65535 -> 2, 65536 -> 65536, 1000 -> 100000, 131071 -> 1, 5 -> 0)) {
      val expected = whole.slice(position, position + length).toSeq
      val page = cache(memory(Roomy)).find(of, 0).get
      val array = new Array[Byte](length + 3)
      page.read(position, array, 3, length) shouldBe true
      array.drop(3).toSeq shouldBe expected
      for (buffer <- Seq(ByteBuffer.allocate(length), ByteBuffer.allocateDirect(length))) {
        page.read(position, buffer) shouldBe true
        buffer.remaining shouldBe 0
        Array.tabulate(length)(buffer.get(_)).toSeq shouldBe expected
      }
      page.close()
    }
  }

  test("another version of an object has none of the old one's pages") {
    val old = identity("a", 1)
    val one = cache(memory(Roomy))
    fill(one, old, 0)
    one.find(old.copy(etag = "new"), 0) shouldBe None
    one.find(old.copy(length = old.length - 1), 0) shouldBe None
  }

  test("a page stays readable for who has it while others evict it") {
    val of = identity("a", 1)
    val one = cache(memory(Roomy))
    fill(one, of, 0)
    val page = one.find(of, 0).get
    cache(memory(Roomy)).forget(of)
    for (_ <- 1 to 3) one.sweep()
    one.find(of, 0) shouldBe None
    val bytes = new Array[Byte](page.length)
    page.read(0, bytes, 0, bytes.length) shouldBe true
    bytes.toSeq shouldBe bytesOf(of, 0).toSeq
    page.close()
    page.close()
    an[IllegalStateException] should be thrownBy page.read(0, bytes, 0, 1)
  }

  test("forgetting an object removes its pages' files from every tier and no other's") {
    val (gone, kept) = (identity("gone", 3), identity("kept", 1))
    val one = cache(memory(Roomy), disk(Roomy))
    for (index <- 0 until 3) fill(one, gone, index)
    fill(one, kept, 0)
    one.forget(gone)
    filesOf(memory(Roomy)) should have size 1
    read(one, kept, 0) shouldBe Some(bytesOf(kept, 0).toSeq)
    tableOf(memory(Roomy)).status.pages shouldBe 1
  }

  test("a page that gets another name is the same file, found by that name alone, after a restart too") {
    val (part, whole) = (identity("part", 1.5), identity("whole", 3.5))
    val one = cache(memory(Roomy), disk(Roomy))
    for (index <- 0 to 1) fill(one, part, index)
    val used = tableOf(memory(Roomy)).status.used
    val inode = Files.getAttribute(filesOf(memory(Roomy)).minBy(-Files.size(_)), "unix:ino")
    for (index <- 0 to 1) one.rename(part, index.toLong, whole, index + 2L)
    for (reader <- Seq(one, cache(memory(Roomy))); index <- 0 to 1) {
      read(reader, part, index) shouldBe None
      read(reader, whole, index + 2L) shouldBe Some(bytesOf(part, index).toSeq)
    }
    tableOf(memory(Roomy)).status.used shouldBe used
    Files.getAttribute(filesOf(memory(Roomy)).minBy(-Files.size(_)), "unix:ino") shouldBe inode
  }

  test("a page that gets the name of one that is there is gone, as is one of another length") {
    val (part, whole) = (identity("part", 2.5), identity("whole", 3))
    val one = cache(memory(Roomy))
    for ((of, index) <- Seq(part -> 0L, part -> 2L, whole -> 0L)) fill(one, of, index)
    one.rename(part, 0, whole, 0)
    one.rename(part, 2, whole, 2)
    one.rename(part, 1, whole, 1)
    read(one, whole, 0) shouldBe Some(bytesOf(whole, 0).toSeq)
    filesOf(memory(Roomy)) should have size 1
    tableOf(memory(Roomy)).status.pages shouldBe 1
  }

  test("a page that gets the name of one on another tier is gone, and what leaves that name leaves no other there") {
    val (part, whole) = (identity("part", 1), identity("whole", 2))
    fill(cache(memory(Roomy)), whole, 0)
    fill(cache(disk(Roomy)), part, 0)
    val one = cache(memory(Roomy), disk(Roomy))
    one.rename(part, 0, whole, 0)
    filesOf(disk(Roomy)) shouldBe empty
    one.rename(whole, 0, whole, 1)
    read(one, whole, 0) shouldBe None
    read(one, whole, 1) shouldBe Some(bytesOf(whole, 0).toSeq)
  }

  test("a page that gets another name while its tier has no room is kept, and pushes no other out") {
    val budget = 3L * (PageSize + SlotWord.BlockSize)
    val one = cache(memory(budget))
    for (name <- Seq("other", "next", "part")) fill(one, identity(name, 1), 0)
    one.rename(identity("part", 1), 0, identity("whole", 1), 0)
    read(one, identity("whole", 1), 0) shouldBe Some(bytesOf(identity("part", 1), 0).toSeq)
    for (name <- Seq("other", "next")) read(one, identity(name, 1), 0) should not be None
    tableOf(memory(budget)).status.used shouldBe budget
  }

  test("what is written takes the place of what was read once without a copy, and of what was read again with one") {
    val budget = 4L * (PageSize + SlotWord.BlockSize)
    val one = cache(memory(budget), disk(Roomy))
    def write(name: String): Unit = one.keep(identity(name, 1), 0, ByteBuffer.wrap(bytesOf(identity(name, 1), 0)))
    def readAll(name: String): Unit = {
      now.addAndGet(EvictionPolicy.SameUse)
      for (n <- 0 until 4) read(one, identity(s"$name-$n", 1), 0) should not be None
    }
    for (name <- Seq("output", "next", "third")) {
      for (n <- 0 until 8) write(s"$name-$n")
      readAll(name)
    }
    filesOf(memory(budget)) should have size 4
    filesOf(disk(Roomy)) shouldBe empty
    readAll("third")
    for (n <- 0 until 4; _ = now.addAndGet(2 * EvictionPolicy.DecayAfter)) write(s"more-$n")
    filesOf(disk(Roomy)) should not be empty
  }

  test("a page left behind by a writer is kept once") {
    val of = identity("a", 1)
    val one = cache(memory(Roomy))
    val data = ByteBuffer.wrap(bytesOf(of, 0))
    one.keep(of, 0, data)
    one.keep(of, 0, data)
    data.position() shouldBe 0
    read(one, of, 0) shouldBe Some(bytesOf(of, 0).toSeq)
    tableOf(memory(Roomy)).status.pages shouldBe 1
  }

  test("the budget holds, whatever is brought") {
    val budget = 10L * (PageSize + SlotWord.BlockSize)
    val one = cache(memory(budget))
    for (n <- 0 until 40) {
      fill(one, identity(s"object-$n", 1), 0)
      tableOf(memory(budget)).status.used should be <= budget
    }
    filesOf(memory(budget)) should have size 10
    tableOf(memory(budget)).status.evictions shouldBe 30
  }

  test("what leaves memory goes to disk while disk has room") {
    val budget = 4L * (PageSize + SlotWord.BlockSize)
    val one = cache(memory(budget), disk(Roomy))
    val objects = (0 until 12).map(n => identity(s"object-$n", 1))
    objects.foreach(fill(one, _, 0))
    filesOf(memory(budget)) should have size 4
    filesOf(disk(Roomy)) should have size 8
    for (of <- objects) read(one, of, 0) shouldBe Some(bytesOf(of, 0).toSeq)
  }

  test(
    "a scan that memory has no room for goes to disk without pushing anything there, and past both when both are full"
  ) {
    val budget = 4L * (PageSize + SlotWord.BlockSize)
    val one = cache(memory(budget), disk(2 * budget))
    val objects = (0 until 20).map(n => identity(s"object-$n", 1))
    one.roomForScan shouldBe 3 * budget
    objects.map(fill(one, _, 0, scanned = true)) shouldBe objects.indices.map(_ < 12)
    one.roomForScan shouldBe 0
    filesOf(memory(budget)) should have size 4
    filesOf(disk(2 * budget)) should have size 8
    for (of <- objects.take(12)) read(one, of, 0) shouldBe Some(bytesOf(of, 0).toSeq)
    tableOf(memory(budget)).status.evictions + tableOf(disk(budget)).status.evictions shouldBe 0
  }

  test("what is written pushes out what was scanned, stays before what is scanned, and goes to no disk") {
    val budget = 4L * (PageSize + SlotWord.BlockSize)
    val one = cache(memory(budget), disk(Roomy))
    for (n <- 0 until 4) fill(one, identity(s"scanned-$n", 1), 0, scanned = true)
    for (n <- 0 until 8) one.keep(identity(s"output-$n", 1), 0, ByteBuffer.wrap(bytesOf(identity(s"output-$n", 1), 0)))
    filesOf(disk(Roomy)) shouldBe empty
    for (n <- 8 until 12) fill(one, identity(s"scanned-$n", 1), 0, scanned = true)
    for (n <- 0 until 4) read(one, identity(s"output-$n", 1), 0) should not be None
    filesOf(disk(Roomy)) should have size 4
  }

  test("what leaves memory for a full disk goes there only if it was found before") {
    val budget = 4L * (PageSize + SlotWord.BlockSize)
    val one = cache(memory(budget), disk(budget))
    val scanned = (0 until 8).map(n => identity(s"scanned-$n", 1))
    scanned.foreach(fill(one, _, 0))
    val onDisk = filesOf(disk(budget)).toSet
    fill(one, identity("more", 1), 0)
    filesOf(disk(budget)).toSet shouldBe onDisk
    now.addAndGet(EvictionPolicy.SameUse)
    for (of <- scanned) read(one, of, 0)
    for (n <- 0 until 4; _ = now.addAndGet(2 * EvictionPolicy.DecayAfter)) fill(one, identity(s"other-$n", 1), 0)
    filesOf(disk(budget)).toSet should not be onDisk
  }
}
