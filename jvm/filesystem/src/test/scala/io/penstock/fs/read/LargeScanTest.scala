package io.penstock.fs.read

import java.lang.management.ManagementFactory
import java.nio.file.Files

import scala.util.Using

import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.PenstockFileSystem
import io.penstock.fs.cache.CacheSettings
import io.penstock.fs.metrics.Counters
import io.penstock.fs.testing.{Requests, Store}

/** Scans of more than the tiers hold. */
class LargeScanTest extends ReadsSuite {

  private val Pages = 40

  /** Memory for half of one object, and no disk. */
  override protected def settings: Map[String, String] =
    Map(CacheSettings.MemorySize -> (Pages / 2 * (PageSize + 4096)).toString, CacheSettings.DiskSize -> "0")

  private def open(fs: FileSystem, path: Path, policy: String = "sequential") =
    fs.openFile(path).opt("fs.option.openfile.read.policy", policy).build().get()

  private def requestsFor(fs: FileSystem, objects: Seq[(Path, Array[Byte])], policy: String = "sequential"): Int = {
    gateway.clear()
    for ((path, data) <- objects) assert(readAll(open(fs, path, policy)) sameElements data)
    ranges.size
  }

  private def fillMemory(): Unit = requestsFor(fileSystem(), Seq(put(Pages * PageSize))): Unit

  /** How much each sum has grown by the work. */
  private def counted(work: => Unit): String => Long = {
    val before = Counters.now()
    work
    val after = Counters.now()
    name => after(name) - before(name)
  }

  test("a scan larger than the tier sends as few requests as S3A's, the second time too") {
    fillMemory()
    val objects = Vector.fill(4)(put(Pages * PageSize))
    val s3a = Store.fileSystem(bucket, Store.conf(java.net.URI.create(gateway.endpoint)))
    val byS3A =
      try requestsFor(s3a, objects)
      finally s3a.close()
    assert(byS3A == objects.size)
    val fs = fileSystem()
    for (_ <- 1 to 3) assert(requestsFor(fs, objects) <= byS3A)
  }

  test("a scan larger than the tier evicts and moves nothing, and what it kept is read from there the next time") {
    val objects = Vector.fill(3)(put(Pages * PageSize))
    val fs = fileSystem()
    val first = counted(requestsFor(fs, objects): Unit)
    assert(Seq("pages_evicted", "pages_demoted").map(first) == Seq(0, 0))
    assert(pageFiles.size == Pages / 2)
    val second = counted(requestsFor(fs, objects): Unit)
    assert(Seq("pages_evicted", "pages_demoted", "pages_filled").map(second) == Seq(0, 0, 0))
    assert(second("bytes_fetched") == (3 * Pages - Pages / 2) * PageSize)
  }

  test("a scan of an object of which every other page is here reads over those, with one request") {
    val (path, data) = put(Pages * PageSize)
    val fs = fileSystem()
    val in = open(fs, path, "random")
    for (page <- 1 until Pages by 2) in.readFully(page.toLong * PageSize, new Array[Byte](10))
    in.close()
    assert(pageFiles.size == Pages / 2)
    val counts = counted(assert(requestsFor(fs, Seq(path -> data)) == 1))
    assert(counts("bytes_from_memory") == data.length / 2)
  }

  test("what is here for longer than a request is worth is not fetched again") {
    val (path, data) = put(Pages * PageSize)
    val fs = fileSystem(CacheSettings.ReadOver -> (4 * PageSize).toString)
    val in = open(fs, path, "random")
    for (page <- 10 until 30) in.readFully(page.toLong * PageSize, new Array[Byte](10))
    in.close()
    assert(requestsFor(fs, Seq(path -> data)) == 2)
    assert(pagesFetched == Vector(0 to 9, 30 to Pages - 1))
  }

  test("who reads on without having said so asks for ever more") {
    val (path, data) = put(8 * Pages * PageSize)
    fillMemory()
    val requests = requestsFor(fileSystem(), Seq(path -> data), policy = "adaptive")
    assert(requests <= 8, pagesFetched)
    assert(pagesFetched.map(_.size).sum == 8 * Pages)
  }

  test("a short skip forward goes on in the same response, a jump ends it") {
    fillMemory()
    val (path, data) = put(Pages * PageSize)
    val fs = fileSystem(CacheSettings.ReadOver -> (4 * PageSize).toString)
    gateway.clear()
    val in = open(fs, path)
    val piece = new Array[Byte](PageSize / 2)
    for (at <- Seq(0, 3 * PageSize, 5 * PageSize + 10, 30 * PageSize, 2 * PageSize)) {
      in.seek(at.toLong)
      in.readFully(piece)
      assert(piece sameElements data.slice(at, at + piece.length))
    }
    in.close()
    assert(ranges.head == ((0L, data.length - 1L)))
    assert(pagesFetched.map(_.start) == Vector(0, 30, 2))
  }

  test("an object that was overwritten while it was passed fails the read, as ever") {
    fillMemory()
    val (path, data) = put(Pages * PageSize)
    val in = open(fileSystem(), path)
    assert(in.readNBytes(PageSize) sameElements data.take(PageSize))
    in.unbuffer()
    bucket.put(path.getName, ReadsSuite.bytes(data.length, 4711))
    assertThrows[org.apache.hadoop.fs.s3a.RemoteFileChangedException](in.readAllBytes())
    in.close()
  }

  test("two who pass through one object at once both read it right, and hold up nobody") {
    fillMemory()
    val (path, data) = put(Pages * PageSize)
    val fs = fileSystem()
    val (slow, quick) = (open(fs, path), open(fs, path))
    assert(slow.readNBytes(3 * PageSize) sameElements data.take(3 * PageSize))
    val waits = Counters.FillWaits.value
    assert(readAll(quick) sameElements data)
    assert(Counters.FillWaits.value == waits, "it waited for the slow one's page")
    assert(readAll(slow) sameElements data.drop(3 * PageSize))
  }
}

/** Resources of open streams that do not read. */
class OpenStreamsTest extends ReadsSuite {

  override protected val PageSize: Int = 1 << 20

  /** In bytes, of what is still used. */
  private def heap(): Long = {
    (1 to 3).foreach(_ => System.gc())
    ManagementFactory.getMemoryMXBean.getHeapMemoryUsage.getUsed
  }

  test("hundreds of streams that stand on a page of a megabyte each hold a small part of one on the heap") {
    val fs = fileSystem()
    val (path, data) = put(3 * PageSize + 5)
    val status = fs.getFileStatus(path)
    assert(readAll(opened(fs, status)) sameElements data)
    val before = heap()
    val streams = Vector.fill(400)(opened(fs, status))
    streams.foreach(in => assert(in.readNBytes(1000) sameElements data.take(1000)))
    val each = (heap() - before) / streams.size
    info(s"$each bytes of heap for an open stream, S3A's own part included")
    streams.foreach(_.close())
    assert(each < PageSize / 10)
  }
}

class ScannedFileTest extends AnyFunSuite {

  private lazy val bucket = Store.newBucket()
  private val path = bucket.path("file")

  private val Cached = Seq(
    "fs.s3a.input.stream.type" -> "custom",
    "fs.s3a.input.stream.custom.factory" -> classOf[PageStreamFactory].getName,
    CacheSettings.MemorySize -> "0",
    CacheSettings.DiskDirectory -> Files.createTempDirectory("penstock-scanned-").toString,
    CacheSettings.DiskSize -> "10M"
  )

  /** The status that a scan gets of a file that is announced to it; what is awaited and what was sent because of it. */
  private def scanned(settings: (String, String)*)(use: PenstockFileSystem => Unit): (Int, Map[String, Long]) = {
    bucket.put("file", new Array[Byte](1000))
    val conf = Store.conf()
    conf.set("fs.s3a.impl", classOf[PenstockFileSystem].getName)
    settings.foreach { case (name, value) => conf.set(name, value) }
    Using.resource(Store.fileSystem(bucket, conf).asInstanceOf[PenstockFileSystem]) { files =>
      val before = ScannedFile.waiting
      var status: FileStatus = null
      val requests = Requests.during {
        status = ScannedFile.opening(ScannedFile(path, 1000, 5000))(files.getFileStatus(path))
      }
      assert(status.getLen == 1000)
      use(files)
      (ScannedFile.waiting - before, requests)
    }
  }

  test("a scan's status costs no request, and the opening that follows it is recognized once") {
    assert(scanned(Cached: _*)(_ => ()) == ((1, Map.empty)))
    val listed = new FileStatus(1000, false, 1, 1, 5000, path)
    assert(scanned(Cached: _*)(_.openFile(path).withFileStatus(listed).build().get().close())._1 <= 0)
  }

  test("where no pages are kept, nothing waits for an opening that nobody would recognize") {
    assert(scanned()(_ => ()) == ((0, Map.empty)))
    assert(scanned(Cached :+ (CacheSettings.Enabled -> "false"): _*)(_ => ()) == ((0, Map.empty)))
    val broken = CacheSettings.DiskDirectory -> "/proc/penstock"
    assert(scanned(Cached :+ broken: _*)(_ => ()) == ((0, Map.empty)))
  }
}
