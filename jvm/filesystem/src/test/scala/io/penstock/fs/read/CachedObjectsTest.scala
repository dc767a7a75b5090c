package io.penstock.fs.read

import java.io.{EOFException, IOException}
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.file.{Path => FilePath, StandardOpenOption}
import java.util.concurrent.TimeUnit

import scala.annotation.nowarn
import scala.jdk.CollectionConverters._
import scala.util.{Random, Using}

import org.apache.hadoop.fs.s3a.RemoteFileChangedException
import org.apache.hadoop.fs.statistics.StreamStatisticNames
import org.apache.hadoop.fs.{FSDataInputStream, FileRange, FileStatus, FileSystem, Path}

import io.penstock.fs.PenstockFileSystem
import io.penstock.fs.cache.CacheSettings
import io.penstock.fs.testing.Trees

/** Small objects whose pages are here, which S3A has no part in. */
class CachedObjectsTest extends ReadsSuite {

  override protected def settings: Map[String, String] =
    Map("fs.s3a.impl" -> classOf[PenstockFileSystem].getName)

  private val Length = PageSize + 1000

  /** Objects that were made so long ago that a version seen of them now is not racy. */
  private lazy val small = {
    val objects = Iterator.fill(16)(put(Length)).toVector
    Thread.sleep(2100)
    objects.iterator
  }

  private def opened(fs: FileSystem, by: FileStatus, path: Path): FSDataInputStream =
    fs.openFile(path).withFileStatus(by).build().get()

  private def isWarm(in: FSDataInputStream): Boolean = in.getWrappedStream.isInstanceOf[CachedObjectInputStream]

  private case class Warmed(fs: FileSystem, status: FileStatus, data: Array[Byte]) {
    def path: Path = status.getPath
    def open(): FSDataInputStream = openBy(fs)

    /** By a cache that has mapped and checked none of its pages, as those of other sizes are. */
    def openUnmapped(): FSDataInputStream = openBy(fileSystem(CacheSettings.MemorySize -> "17M"))

    private def openBy(fs: FileSystem) = {
      val in = opened(fs, status, path)
      assert(isWarm(in))
      in
    }
  }

  /** An object that has been read once; nothing has been asked of the store since. */
  private def warmed(): Warmed = {
    val (path, data) = small.next()
    val fs = fileSystem()
    val status = fs.getFileStatus(path)
    val cold = opened(fs, ReadsSuite.plain(status), path)
    assert(!isWarm(cold))
    assert(readAll(cold) sameElements data)
    gateway.clear()
    Warmed(fs, status, data)
  }

  /** As if they had been evicted; what this process has mapped of them, it still reads. */
  private def dropPages(): Unit = pageFiles.foreach(file => assert(file.toFile.delete()))

  test("opening and reading it sends nothing, with the listing's status and with one of length and time alone") {
    val object_ = warmed()
    for (status <- Seq(object_.status, ReadsSuite.plain(object_.status))) {
      val in = opened(object_.fs, status, object_.path)
      assert(isWarm(in))
      assert(readAll(in) sameElements object_.data)
    }
    assert(gateway.requests.isEmpty)
  }

  test("every way of reading gives the object's bytes and its end") {
    val object_ = warmed()
    val random = new Random(1)
    val in = object_.open()
    for (_ <- 1 to 200) {
      val at = random.nextInt(Length + 1)
      val wanted = 1 + random.nextInt(Length)
      val expected = object_.data.slice(at, at + wanted).toSeq
      val into = new Array[Byte](wanted + 2)
      val buffer = if (random.nextBoolean()) ByteBuffer.allocate(wanted) else ByteBuffer.allocateDirect(wanted)
      val read = random.nextInt(4) match {
        case 0 => in.seek(at.toLong); in.read(into, 1, wanted)
        case 1 => in.read(at.toLong, into, 1, wanted)
        case 2 => in.seek(at.toLong); in.read(buffer)
        case 3 => in.read(at.toLong, buffer)
      }
      val got = if (buffer.position() == 0) into.toSeq.slice(1, 1 + math.max(0, read)) else flipped(buffer)
      assert(got == expected, s"$wanted bytes at $at")
      assert(read == (if (expected.isEmpty) -1 else expected.size))
    }
    in.seek(PageSize - 1L)
    assert(Seq(in.read(), in.read()) == Seq(object_.data(PageSize - 1) & 0xff, object_.data(PageSize) & 0xff))
    assert(in.skip(10) == 10 && in.getPos == PageSize + 11 && in.available() == Length - PageSize - 11)
    intercept[EOFException](in.readFully(Length - 5L, new Array[Byte](6)))
    intercept[EOFException](in.readFully(Length - 5L, ByteBuffer.allocate(6)))
    intercept[EOFException](in.seek(-1))
    in.close()
    intercept[IOException](in.read())
    intercept[IOException](in.readFully(0, new Array[Byte](1)))
    assert(gateway.requests.isEmpty)
  }

  private def flipped(buffer: ByteBuffer): Seq[Byte] = {
    buffer.flip()
    val bytes = new Array[Byte](buffer.remaining)
    buffer.get(bytes)
    bytes.toSeq
  }

  test("a vectored read is complete at once") {
    val object_ = warmed()
    val in = object_.open()
    val ranges = Seq((10L, 20), (PageSize - 5L, 10), (Length - 7L, 7)).map { case (at, size) =>
      FileRange.createFileRange(at, size)
    }
    in.readVectored(ranges.asJava, ByteBuffer.allocate(_))
    for (range <- ranges) {
      assert(range.getData.isDone)
      val expected = object_.data.slice(range.getOffset.toInt, range.getOffset.toInt + range.getLength).toSeq
      val buffer = range.getData.get(60, TimeUnit.SECONDS)
      assert(Seq.fill(buffer.remaining)(buffer.get()) == expected)
    }
    intercept[EOFException](
      in.readVectored(Seq(FileRange.createFileRange(Length - 1L, 2)).asJava, ByteBuffer.allocate(_))
    )
    in.close()
    assert(gateway.requests.isEmpty)
  }

  test("what is read counts, for the stream and for the thread that reads, as of any stream") {
    val object_ = warmed()
    val before = bytesReadByThisThread()
    val in = object_.open()
    in.readFully(5, new Array[Byte](100))
    in.readNBytes(50)
    assert(in.getIOStatistics.counters.get(StreamStatisticNames.STREAM_READ_BYTES).longValue == 150L)
    in.close()
    assert(bytesReadByThisThread() == before + 150)
  }

  /** As Spark asks for the bytes that a task has read. */
  @nowarn("cat=deprecation")
  private def bytesReadByThisThread(): Long =
    FileSystem.getAllStatistics.asScala.map(_.getThreadStatistics.getBytesRead).sum

  test("pages that go away while it is read are fetched again, and reading goes on where it was") {
    val object_ = warmed()
    val in = object_.openUnmapped()
    assert(in.readNBytes(1000) sameElements object_.data.take(1000))
    dropPages()
    val end = new Array[Byte](10)
    in.readFully(Length - 10L, end)
    assert(end sameElements object_.data.takeRight(10))
    assert(in.readAllBytes() sameElements object_.data.drop(1000))
    in.close()
    assert(pagesFetched.flatten.contains(1) && gateway.requests.forall(_.method == "GET"))
  }

  test("overwritten after bytes of it were given out, and gone from here: reading fails, and mixes nothing") {
    val object_ = warmed()
    val in = object_.openUnmapped()
    in.readNBytes(1000)
    bucket.put(object_.path.getName, ReadsSuite.bytes(Length, 99))
    dropPages()
    intercept[RemoteFileChangedException](in.readAllBytes())
    in.close()
  }

  test("opened, and then its pages and their directories are gone: S3A's stream reads it") {
    val object_ = warmed()
    val in = object_.openUnmapped()
    Trees.delete(tiers)
    assert(readAll(in) sameElements object_.data)
    assert(pagesFetched.flatten.toSet == Set(0, 1))
  }

  test("pages that were damaged here are not given out, and come again") {
    val object_ = warmed()
    pageFiles.foreach(flip(_, 100))
    val in = object_.openUnmapped()
    assert(readAll(in) sameElements object_.data)
    assert(pagesFetched.flatten.toSet == Set(0, 1))
  }

  private def flip(file: FilePath, at: Long): Unit =
    Using.resource(FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) { channel =>
      val one = ByteBuffer.allocate(1)
      channel.read(one, at)
      one.put(0, (one.get(0) ^ 1).toByte).rewind()
      channel.write(one, at): Unit
    }

  test("S3A opens what is larger, what is not here whole, what must be confirmed, and what it has to refuse") {
    val object_ = warmed()
    val strict = fileSystem(CacheSettings.Strict -> "true")
    val confirmed = opened(strict, object_.status, object_.path)
    assert(!isWarm(confirmed))
    assert(readAll(confirmed) sameElements object_.data)
    assert(confirmations == 1)

    val (large, _) = put(2 * PageSize + 1)
    val status = object_.fs.getFileStatus(large)
    readAll(opened(object_.fs, status, large))
    val again = opened(object_.fs, status, large)
    assert(!isWarm(again))
    again.close()

    intercept[Exception](object_.fs.openFile(object_.path).withFileStatus(object_.status).must("no.such", "1").build())
    val closed = fileSystem()
    closed.close()
    intercept[Exception](closed.openFile(object_.path).withFileStatus(object_.status).build().get())
  }
}
