package io.penstock.fs.read

import java.nio.file.{Files, Path, StandardOpenOption}

import scala.util.Random

import org.scalatest.BeforeAndAfterEach
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.testing.Trees

class ObjectMetadataCacheTest extends AnyFunSuite with BeforeAndAfterEach {

  private var directory: Path = _

  override def beforeEach(): Unit = directory = Files.createTempDirectory("penstock-objects-")
  override def afterEach(): Unit = Trees.delete(directory)

  private def status(key: String, length: Long = 10, modified: Long = 1000) =
    ObjectStatus("http://gateway", "lake", key, length, modified)

  private def table = ObjectMetadataCache.in(Seq(directory))
  private def file = directory.resolve("objects")

  test("a version is known under the whole status it was seen with, and no other") {
    table.put(status("a"), "tag", 2000, 5)
    assert(table.get(status("a")).contains(ObjectMetadata("tag", racy = false, 5)))
    val others = Seq(
      status("b"),
      status("a", length = 11),
      status("a", modified = 1001),
      status("a").copy(bucket = "sea"),
      status("a").copy(endpoint = "http://another")
    )
    assert(others.forall(table.get(_).isEmpty))
    table.forget(status("a"))
    assert(table.get(status("a")).isEmpty)
  }

  test("the last version seen is the one that is known") {
    table.put(status("a"), "old", 1000, 4)
    table.put(status("a"), "new", 1000, 5)
    assert(table.get(status("a")).contains(ObjectMetadata("new", racy = true, 5)))
  }

  test("a version seen within a second of its modification is racy") {
    assert(Seq(998L, 1000L, 1001L).forall(ObjectMetadata.racy("a", 1000, _, "tag")))
    assert(Seq(1002L, 5000L).forall(!ObjectMetadata.racy("a", 1000, _, "tag")))
  }

  test("a version that came in parts, which may have begun long before it was complete, is racy for a minute") {
    val tag = "0123456789abcdef0123456789abcdef-2"
    assert(Seq(998L, 1002L, 1059L).forall(ObjectMetadata.racy("t/part-0", 1000, _, tag)))
    assert(!ObjectMetadata.racy("t/part-0", 1000, 1060, tag))
    // Its name is used once.
    val ofSpark = "t/part-00000-b2a7cbb7-0a1b-4f0e-9f8f-3a1d2c4b5e6f-17.c000.snappy.parquet"
    assert(ObjectMetadata.racy(ofSpark, 1000, 1001, tag) && !ObjectMetadata.racy(ofSpark, 1000, 1002, tag))
  }

  test("a torn slot is unknown, whichever byte of it is wrong") {
    val known = status("a")
    table.put(known, "0123456789abcdef0123456789abcdef-12", 2000, 5)
    val bytes = Files.readAllBytes(file)
    val slot = bytes.indexWhere(_ != 0) / 128 * 128
    val random = new Random(7)
    for (at <- slot until slot + 128) {
      val torn = bytes.clone
      torn(at) = (torn(at) ^ (1 + random.nextInt(255))).toByte
      Files.write(file, torn, StandardOpenOption.WRITE)
      assert(table.get(known).isEmpty, s"byte ${at - slot}")
    }
    Files.write(file, bytes, StandardOpenOption.WRITE)
    assert(table.get(known).isDefined)
  }

  test("the table never grows, and what it still knows of more objects than it holds is right") {
    val count = 90000
    for (i <- 0 until count) table.put(status(s"key-$i"), s"tag-$i", 2000L + i, 5)
    assert(Files.size(file) == 8 * 1024 * 1024)
    val found = (0 until count).flatMap(i => table.get(status(s"key-$i")).map(i -> _.etag))
    assert(found.forall { case (i, tag) => tag == s"tag-$i" })
    assert(found.size > 50000)
    assert(table.get(status(s"key-${count - 1}")).isDefined, "the newest is always there")
  }

  test("a tag that is too long is not remembered") {
    table.put(status("a"), "x" * 200, 2000, 5)
    assert(table.get(status("a")).isEmpty)
  }

  test("a table that is cut short under its process, or has no room to grow, knows nothing; nobody dies of it") {
    val one = table
    // Often enough to be compiled: only then a fault does not show where it happens, but in other code, later.
    for (i <- 1 to 20000) one.put(status(s"key-$i"), s"tag-$i", 2000, 5)
    Files.newByteChannel(file, StandardOpenOption.WRITE).truncate(0).close()
    one.put(status("a"), "tag", 2000, 5)
    assert(one.get(status("a")).isEmpty)
    assert(one.get(status("key-20000")).isEmpty)
  }

  test("a directory that takes no table is passed over, and with none nothing is known") {
    val blocked = Files.createFile(directory.resolve("a-file"))
    val spare = Files.createDirectory(directory.resolve("spare"))
    ObjectMetadataCache.in(Seq(blocked, spare)).put(status("a"), "tag", 2000, 5)
    assert(ObjectMetadataCache.in(Seq(spare)).get(status("a")).isDefined)
    assert(ObjectMetadataCache.in(Seq(blocked)) eq ObjectMetadataCache.None)
    ObjectMetadataCache.None.put(status("a"), "tag", 2000, 5)
    assert(ObjectMetadataCache.None.get(status("a")).isEmpty)
  }
}
