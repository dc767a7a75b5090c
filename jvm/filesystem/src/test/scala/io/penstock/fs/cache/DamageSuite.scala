package io.penstock.fs.cache

import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.file.{Files, Path, StandardOpenOption}

import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.matchers.should.Matchers

import io.penstock.fs.Counters

/** A page exists whole or not at all: what happened to its file shows as a miss, never as other bytes. */
class DamageSuite extends AnyFunSuite with Matchers with TemporaryTiers {

  private def tier = memory(16L * 1024 * 1024)
  private val sales = identity("a", 1)

  /** A page in a tier, its file damaged while no process has it open. */
  private def damaged(damage: Path => Unit): TieredPageCache = {
    fill(cache(tier), sales, 0)
    damage(filesOf(tier).head)
    cache(tier)
  }

  private def truncate(file: Path, size: Long): Unit = {
    val channel = FileChannel.open(file, StandardOpenOption.WRITE)
    try channel.truncate(size)
    finally channel.close()
  }

  private def expectGone(cache: TieredPageCache): Unit = {
    read(cache, sales, 0) shouldBe None
    cache.has(sales, 0) shouldBe false
    filesOf(tier) shouldBe empty
    tableOf(tier).status.used shouldBe 0
    fill(cache, sales, 0)
    read(cache, sales, 0) shouldBe Some(bytesOf(sales, 0).toSeq)
  }

  for (size <- Seq(0L, 1L, 1000L, 128L * 1024, 128L * 1024 + 50))
    test(s"a torn page: cut to $size bytes") {
      val before = Counters.PagesDamaged.value
      expectGone(damaged(truncate(_, size)))
      Counters.PagesDamaged.value shouldBe before + 1
    }

  for (at <- Seq(0, 70000, 128 * 1024 - 1))
    test(s"one wrong byte in the data: at $at") {
      expectGone(damaged(flip(_, at.toLong)))
    }

  for (fromEnd <- Seq(1, 10, 14, 30, 60))
    test(s"one wrong byte in the trailer: $fromEnd before its end") {
      expectGone(damaged(file => flip(file, Files.size(file) - fromEnd)))
    }

  test("a page whose file was removed by hand") {
    expectGone(damaged(Files.delete(_)))
  }

  test("another page's file under this page's name") {
    val one = cache(tier)
    fill(one, identity("other", 1), 0)
    val other = filesOf(tier).head
    fill(one, sales, 0)
    Files.write(filesOf(tier).find(_ != other).get, Files.readAllBytes(other))
    Files.delete(other)
    one.forget(identity("other", 1))
    expectGone(cache(tier))
  }

  test("only the blocks that were asked for are checked, each once") {
    val one = damaged(flip(_, 70000))
    val page = one.find(sales, 0).get
    val bytes = new Array[Byte](1000)
    page.read(0, bytes, 0, 1000) shouldBe true
    page.read(65536, bytes, 0, 1) shouldBe false
    page.close()
    one.find(sales, 0) shouldBe None
  }

  test("a page whose file is cut short under its readers is damaged, which no reader dies of, nor gets a wrong byte") {
    fill(cache(tier), sales, 0)
    val one = cache(tier)
    val page = one.find(sales, 0).get
    val bytes = new Array[Byte](PageSize)
    // Often enough to be compiled: only then a fault does not show where it happens.
    for (_ <- 1 to 20000) page.read(0, bytes, 0, 5000) shouldBe true
    truncate(filesOf(tier).head, 0)
    page.read(0, bytes, 0, 5000) shouldBe false
    page.read(0, bytes, 0, PageSize) shouldBe false
    page.read(5, ByteBuffer.allocateDirect(10)) shouldBe false
    page.close()
    expectGone(one)
  }
}
