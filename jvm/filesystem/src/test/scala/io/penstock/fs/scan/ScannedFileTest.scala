package io.penstock.fs.scan

import java.nio.file.Files

import scala.util.Using

import org.apache.hadoop.fs.FileStatus
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.read.PageStreamFactory
import io.penstock.fs.testing.{Requests, Store}
import io.penstock.fs.{CacheSettings, PenstockFileSystem}

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

  /** The status that a scan gets of a file it was told of; what is awaited and what was sent because of it. */
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
    val told = new FileStatus(1000, false, 1, 1, 5000, path)
    assert(scanned(Cached: _*)(_.openFile(path).withFileStatus(told).build().get().close())._1 <= 0)
  }

  test("where no pages are kept, nothing waits for an opening that nobody would recognize") {
    assert(scanned()(_ => ()) == ((0, Map.empty)))
    assert(scanned(Cached :+ (CacheSettings.Enabled -> "false"): _*)(_ => ()) == ((0, Map.empty)))
    val broken = CacheSettings.DiskDirectory -> "/proc/penstock"
    assert(scanned(Cached :+ broken: _*)(_ => ()) == ((0, Map.empty)))
  }
}
