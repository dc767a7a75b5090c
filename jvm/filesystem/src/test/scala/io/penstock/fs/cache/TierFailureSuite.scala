package io.penstock.fs.cache

import java.nio.channels.{FileChannel, FileLock, ReadableByteChannel, WritableByteChannel}
import java.nio.file.attribute.{FileTime, PosixFilePermissions}
import java.nio.file.{Files, LinkOption, Path, StandardOpenOption}
import java.nio.{ByteBuffer, MappedByteBuffer}

import scala.util.Random

import org.scalatest.concurrent.Eventually._
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.matchers.should.Matchers
import org.scalatest.time.SpanSugar._

import io.penstock.fs.metrics.Counters

/** A tier that does not work makes reads slower, never wrong and never an error. */
class TierFailureSuite extends AnyFunSuite with Matchers with TemporaryTiers {

  private val Roomy = 16L * 1024 * 1024
  private val sales = version("a", 4)
  private val random = new Random(11)

  /** Asks everything of a cache that has nothing to give. */
  private def expectNothing(cache: TieredPageCache): Unit = {
    cache.keeps shouldBe false
    cache.find(sales, 0) shouldBe None
    cache.has(sales, 0) shouldBe false
    cache.keep(sales, 0, ByteBuffer.wrap(bytesOf(sales, 0)))
    fill(cache, sales, 0)
    cache.find(sales, 0) shouldBe None
    cache.forget(sales)
    cache.sweep()
    cache.tidy()
  }

  test("a file where the directory should be") {
    Files.createFile(memory(Roomy).directory)
    expectNothing(cache(memory(Roomy)))
  }

  test("a directory that others could put another in place of") {
    val parent = Files.createDirectory(directory.resolve("shared"))
    val below = memory(Roomy).copy(directory = parent.resolve("memory"))
    for ((mode, works) <- Seq("rwxrwxrwx" -> false, "rwxr-xr-x" -> true)) {
      Files.setPosixFilePermissions(parent, PosixFilePermissions.fromString(mode))
      if (works) cache(below).keeps shouldBe true else expectNothing(cache(below))
    }
  }

  test("a link leads to the cache only where nobody else made it") {
    val ours = Files.createDirectory(directory.resolve("ours"))
    Files.setPosixFilePermissions(ours, PosixFilePermissions.fromString("rwxr-xr-x"))
    val link = Files.createSymbolicLink(directory.resolve("link"), ours)
    val below = memory(Roomy).copy(directory = link.resolve("memory"))
    for (tier <- Seq(memory(Roomy).copy(directory = link), below)) {
      cache(tier).keeps shouldBe true
      PrivateFiles.list(ours).foreach(PrivateFiles.deleteTree)
    }
    assume(Files.getAttribute(directory, "unix:uid") == 0, "only root can make a link another account's")
    Files.setAttribute(link, "unix:uid", 65533, LinkOption.NOFOLLOW_LINKS)
    Files.setPosixFilePermissions(ours, PosixFilePermissions.fromString("rwxr-xr-x"))
    for (tier <- Seq(memory(Roomy).copy(directory = link), below)) expectNothing(cache(tier))
    PrivateFiles.list(ours) shouldBe empty
    PosixFilePermissions.toString(Files.getPosixFilePermissions(ours)) shouldBe "rwxr-xr-x"
  }

  test("a memory tier that does not work leaves the pages to the disk tier") {
    Files.createFile(memory(Roomy).directory)
    val one = cache(memory(Roomy), disk(Roomy))
    one.keeps shouldBe true
    fill(one, sales, 0)
    read(one, sales, 0) shouldBe Some(bytesOf(sales, 0).toSeq)
    filesOf(disk(Roomy)) should have size 1
  }

  test("a tier without the room for one page takes none") {
    expectNothing(cache(memory(PageSize - 1L)))
    val one = cache(memory(PageSize.toLong))
    fill(one, sales, 0)
    one.find(sales, 0) shouldBe None
    tableOf(memory(0)).status.used shouldBe 0
  }

  test("a fill that pauses until its slot is given up leaves no file that nothing counts") {
    // A page of another tier, whose copying takes so long that the hand takes the slot for a dead process's.
    val source = cache(disk(Roomy))
    fill(source, sales, 0)
    val page = Files.newByteChannel(filesOf(disk(Roomy)).head).asInstanceOf[FileChannel]
    val slow = new PausingChannel(
      page,
      () => {
        now.addAndGet(EvictionPolicy.Abandoned + 1)
        val directory = TierDirectory.existing(memory(Roomy).directory).get
        new SpaceAllocator(directory, tableOf(memory(Roomy)), None).evictOne(EvictionPolicy.Read) shouldBe true
      }
    )
    val tier = new Tier(memory(Roomy), None, None, () => now.get, 0)
    val key = sales.page(0, PageSize)
    tier.adopt(key, slow) shouldBe false
    filesOf(memory(Roomy)) shouldBe empty
    tableOf(memory(Roomy)).status.used shouldBe 0
    tier.adopt(key, page) shouldBe true
    filesOf(memory(Roomy)) should have size 1
    page.close()
  }

  test("two processes that have one identifier, as in two pods, do not take each other's unfinished pages") {
    def name(process: => Unit): Set[String] = {
      process
      PrivateFiles.list(memory(Roomy).directory.resolve("v1/filling")).map(_.getFileName.toString).toSet
    }
    val directory = TierDirectory.open(memory(Roomy).directory, 256)
    val label = PageLabel(sales, 0, PageSize)
    var filling = Set.empty[String]
    directory.create(label.key)(_ => filling = name(()))
    filling should have size 1
    filling.head should not startWith s"${ProcessHandle.current.pid}-"
  }

  /** A cache whose directory is removed, which it has found out. */
  private def removed(restMs: Long): TieredPageCache = {
    val one = cacheThatRests(restMs, memory(Roomy))
    fill(one, sales, 0)
    PrivateFiles.deleteTree(memory(Roomy).directory)
    one.find(sales, 0) shouldBe None
    one
  }

  test("a directory that is removed while in use is left alone") {
    val one = removed(restMs = 600000)
    one.keeps shouldBe false
    Files.exists(memory(Roomy).directory) shouldBe false
  }

  /** As `penstock cache drop` does, in another process. */
  private def drop(tier: TierSettings): Unit = {
    val aside = tier.directory.resolve("v1-discarded-here")
    Files.move(tier.directory.resolve("v1"), aside)
    val table = Files.newByteChannel(aside.resolve("table"), StandardOpenOption.WRITE)
    try table.write(ByteBuffer.allocate(8))
    finally table.close()
    PrivateFiles.deleteTree(aside)
  }

  test("what is dropped from outside is found by nobody from then on, and the directory is filled again") {
    val one = cacheThatRests(600000, memory(Roomy))
    (0 to 2).foreach(fill(one, sales, _))
    read(one, sales, 0) shouldBe Some(bytesOf(sales, 0).toSeq)
    drop(memory(Roomy))
    for (index <- 0 to 2) one.find(sales, index) shouldBe None
    fill(one, sales, 1)
    read(one, sales, 1) shouldBe Some(bytesOf(sales, 1).toSeq)
    filesOf(memory(Roomy)) should have size 1
  }

  test("a directory that is removed while in use is made anew after a rest") {
    val one = removed(restMs = 50)
    eventually(timeout(60.seconds)) {
      one.keeps shouldBe true
    }
    one.find(sales, 0) shouldBe None
    fill(one, sales, 1)
    read(cache(memory(Roomy)), sales, 1) shouldBe Some(bytesOf(sales, 1).toSeq)
  }

  test("a directory that is replaced while in use is noticed without a miss on the old one") {
    val one = cache(memory(Roomy))
    fill(one, sales, 0)
    Files.move(memory(Roomy).directory, directory.resolve("elsewhere"))
    fill(cache(memory(Roomy)), sales, 1)
    one.tidy()
    read(one, sales, 1) shouldBe Some(bytesOf(sales, 1).toSeq)
    one.find(sales, 0) shouldBe None
  }

  test("a table of random bytes starts an empty cache, and what was there is removed") {
    fill(cache(memory(Roomy)), sales, 0)
    val table = memory(Roomy).directory.resolve("v1/table")
    for (size <- Seq(0, 100, Files.size(table).toInt)) {
      Files.write(table, random.nextBytes(size), StandardOpenOption.TRUNCATE_EXISTING)
      val one = cache(memory(Roomy))
      one.find(sales, 0) shouldBe None
      fill(one, sales, 0)
      read(one, sales, 0) shouldBe Some(bytesOf(sales, 0).toSeq)
      one.tidy()
      PrivateFiles.list(memory(Roomy).directory).map(_.getFileName.toString).toSet shouldBe Set("lock", "v1")
    }
  }

  test("slots of random bytes cost pages, not answers") {
    fill(cache(memory(Roomy)), sales, 0)
    val table = memory(Roomy).directory.resolve("v1/table")
    val bytes = Files.readAllBytes(table)
    random.nextBytes(bytes.length - PageTable.HeaderSize).copyToArray(bytes, PageTable.HeaderSize)
    Files.write(table, bytes)
    val one = cache(memory(Roomy))
    for (index <- 0L until 4) {
      one.keep(sales, index, ByteBuffer.wrap(bytesOf(sales, index)))
      read(one, sales, index) should (be(None) or be(Some(bytesOf(sales, index).toSeq)))
    }
  }

  test("a table that is cut short under its users makes the tier rest, then start anew") {
    val one = cache(memory(Roomy))
    fill(one, sales, 0)
    Files.write(memory(Roomy).directory.resolve("v1/table"), Array[Byte](), StandardOpenOption.TRUNCATE_EXISTING)
    for (index <- 0L until 4) one.find(sales, index) shouldBe None
    fill(one, sales, 0)
    fill(one, sales, 1)
    read(one, sales, 1) shouldBe Some(bytesOf(sales, 1).toSeq)
  }

  test("the last process to open a tier decides its budget") {
    val page = (PageSize + SlotWord.BlockSize).toLong
    val first = cache(memory(8 * page))
    for (n <- 0 until 8) fill(first, version(s"object-$n", 1), 0)
    val second = cache(memory(4 * page))
    fill(second, version("more", 1), 0)
    tableOf(memory(0)).status.used should be <= 4 * page
    fill(first, version("yet more", 1), 0)
    tableOf(memory(0)).status.used should be <= 4 * page
  }

  test("what a killed process left half written is removed when it is old") {
    val one = cache(memory(Roomy))
    fill(one, sales, 0)
    val filling = memory(Roomy).directory.resolve("v1/filling")
    val (old, young) = (filling.resolve("1-1"), filling.resolve("2-1"))
    Seq(old, young).foreach(Files.createFile(_))
    Files.setLastModifiedTime(old, FileTime.fromMillis(0))
    one.tidy()
    one.keeps shouldBe true
    Files.exists(old) shouldBe false
    Files.exists(young) shouldBe true
  }

  test("pages and directories are their owner's alone") {
    fill(cache(memory(Roomy)), sales, 0)
    val page = filesOf(memory(Roomy)).head
    PosixFilePermissions.toString(Files.getPosixFilePermissions(page)) shouldBe "rw-------"
    for (path <- Seq(page.getParent, page.getParent.getParent, memory(Roomy).directory))
      PosixFilePermissions.toString(Files.getPosixFilePermissions(path)) shouldBe "rwx------"
  }

  test("an interrupted reader is not the tier's fault") {
    val one = cacheThatRests(60000, memory(Roomy))
    fill(one, sales, 0)
    Thread.currentThread.interrupt()
    one.find(sales, 0)
    one.keep(sales, 1, ByteBuffer.wrap(bytesOf(sales, 1)))
    withClue("still interrupted")(Thread.interrupted() shouldBe true)
    one.keeps shouldBe true
    read(one, sales, 0) shouldBe Some(bytesOf(sales, 0).toSeq)
  }
}

/** Pauses when its size is asked for the second time: the first time is before there is a slot for what is in it. */
private[cache] class PausingChannel(of: FileChannel, pause: () => Unit) extends FileChannel {
  private var asked = 0

  override def size(): Long = {
    asked += 1
    if (asked == 2) pause()
    of.size()
  }

  override def transferTo(position: Long, count: Long, to: WritableByteChannel): Long =
    of.transferTo(position, count, to)
  override def read(into: ByteBuffer): Int = of.read(into)
  override def read(into: Array[ByteBuffer], offset: Int, length: Int): Long = of.read(into, offset, length)
  override def read(into: ByteBuffer, position: Long): Int = of.read(into, position)
  override def write(from: ByteBuffer): Int = of.write(from)
  override def write(from: Array[ByteBuffer], offset: Int, length: Int): Long = of.write(from, offset, length)
  override def write(from: ByteBuffer, position: Long): Int = of.write(from, position)
  override def position(): Long = of.position()
  override def position(to: Long): FileChannel = of.position(to)
  override def truncate(size: Long): FileChannel = of.truncate(size)
  override def force(metadata: Boolean): Unit = of.force(metadata)
  override def transferFrom(from: ReadableByteChannel, position: Long, count: Long): Long =
    of.transferFrom(from, position, count)
  override def map(mode: FileChannel.MapMode, position: Long, size: Long): MappedByteBuffer =
    of.map(mode, position, size)
  override def lock(position: Long, size: Long, shared: Boolean): FileLock = of.lock(position, size, shared)
  override def tryLock(position: Long, size: Long, shared: Boolean): FileLock = of.tryLock(position, size, shared)
  override protected def implCloseChannel(): Unit = of.close()
}

/** A page exists whole or not at all: what happened to its file shows as a miss, never as other bytes. */
class DamageSuite extends AnyFunSuite with Matchers with TemporaryTiers {

  private def tier = memory(16L * 1024 * 1024)
  private val sales = version("a", 1)

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
    fill(one, version("other", 1), 0)
    val other = filesOf(tier).head
    fill(one, sales, 0)
    Files.write(filesOf(tier).find(_ != other).get, Files.readAllBytes(other))
    Files.delete(other)
    one.forget(version("other", 1))
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
