package io.penstock.fs.read

import java.nio.ByteBuffer
import java.util.concurrent.TimeUnit

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.s3a.RemoteFileChangedException
import org.apache.hadoop.fs.{FSDataInputStream, FileRange, FileSystem, Path}

import io.penstock.fs.testing.{Fault, Store}
import io.penstock.fs.{CacheSettings, Counters}

/** Reads of what is kept from the second time on: the first sends S3A's requests and leaves nothing behind. */
class NotKeptTest extends ReadsSuite {

  override protected def settings: Map[String, String] = Map(CacheSettings.Admission -> "again")

  private def open(fs: FileSystem, path: Path, policy: String): FSDataInputStream =
    fs.openFile(path).opt("fs.option.openfile.read.policy", policy).build().get()

  private def s3a(): FileSystem = Store.fileSystem(bucket, Store.conf(java.net.URI.create(gateway.endpoint)))

  private def requests(fs: FileSystem)(read: FileSystem => Unit): Vector[(Long, Long)] = {
    gateway.clear()
    read(fs)
    ranges
  }

  for (policy <- Seq("sequential", "whole-file"))
    test(s"$policy: the first scan sends S3A's requests and keeps nothing, the second keeps, the third sends none") {
      val (path, data) = put(40 * PageSize + 100)
      def scan(fs: FileSystem): Unit = assert(readAll(open(fs, path, policy)) sameElements data)
      val plain = s3a()
      val theirs =
        try requests(plain)(scan)
        finally plain.close()
      assert(requests(fileSystem())(scan) == theirs)
      assert(pageFiles.isEmpty)
      requests(fileSystem())(scan)
      assert(pageFiles.size == 41)
      assert(requests(fileSystem())(scan).filter(_ != ((0, 0))).isEmpty)
    }

  test("one scan by many small reads is one touch of each page") {
    val (path, data) = put(20 * PageSize)
    val fs = fileSystem()
    val in = open(fs, path, "sequential")
    for (expected <- data.grouped(1000)) assert(in.readNBytes(expected.length) sameElements expected)
    in.close()
    assert(pageFiles.isEmpty)
  }

  private def vectored(
      in: FSDataInputStream,
      wanted: Seq[(Long, Int)],
      allocate: Int => ByteBuffer
  ): Seq[Array[Byte]] = {
    val files = wanted.map { case (offset, length) => FileRange.createFileRange(offset, length) }
    in.readVectored(files.asJava, allocate(_))
    files.map { range =>
      val buffer = range.getData.get(60, TimeUnit.SECONDS)
      val bytes = new Array[Byte](buffer.remaining)
      buffer.get(bytes)
      bytes
    }
  }

  for (
    (kind, allocate) <- Seq[(String, Int => ByteBuffer)](
      "heap" -> (ByteBuffer.allocate(_)),
      "direct" -> (ByteBuffer.allocateDirect(_))
    )
  )
    test(s"a vectored read into $kind buffers sends S3A's merged ranges, and keeps their pages the second time") {
      val (path, data) = put(40 * PageSize)
      val wanted =
        Seq(
          (10L, 20),
          (1000L, PageSize),
          (9L * PageSize, 100),
          (11L * PageSize + 5, 50),
          (30L * PageSize - 1, 3 * PageSize)
        )
      val expected = wanted.map { case (offset, length) => data.slice(offset.toInt, offset.toInt + length).toSeq }
      def read(fs: FileSystem): Unit = {
        val in = open(fs, path, "parquet, columnar, vector, random")
        try assert(vectored(in, wanted, allocate).map(_.toSeq) == expected)
        finally in.close()
      }
      val plain = s3a()
      val theirs =
        try requests(plain)(read)
        finally plain.close()
      assert(requests(fileSystem())(read).sorted == theirs.sorted)
      assert(pageFiles.isEmpty)
      requests(fileSystem())(read)
      assert(pageFiles.size == 2 + 3 + 4, "the page between two that are near each other comes along")
      assert(requests(fileSystem())(read).filter(_ != ((0, 0))).isEmpty)
    }

  test("of a vectored read half of whose pages were read before, those are kept, and the others read by themselves") {
    val (path, data) = put(20 * PageSize)
    val fs = fileSystem()
    val in = open(fs, path, "random")
    vectored(in, Seq((4L * PageSize, 2 * PageSize)), ByteBuffer.allocate(_))
    gateway.clear()
    val wanted = Seq((4L * PageSize + 10, 2 * PageSize - 20), (12L * PageSize + 7, 100), (12L * PageSize + 500, 1000))
    val read = vectored(in, wanted, ByteBuffer.allocate(_))
    in.close()
    for (((offset, length), bytes) <- wanted.zip(read))
      assert(bytes sameElements data.slice(offset.toInt, offset.toInt + length))
    assert(ranges.sorted == Vector((4L * PageSize, 6L * PageSize - 1), (12L * PageSize + 7, 12L * PageSize + 1499)))
    assert(pageFiles.size == 2)
  }

  test("a positional read asks for its bytes and no more, until its page was read before") {
    val (path, data) = put(20 * PageSize)
    val in = open(fileSystem(), path, "random")
    gateway.clear()
    val piece = new Array[Byte](1000)
    for (at <- Seq(5 * PageSize + 100, 5 * PageSize + 3000, 5 * PageSize + 9000)) {
      in.readFully(at.toLong, piece)
      assert(piece sameElements data.slice(at, at + 1000))
    }
    in.close()
    val from = 5L * PageSize
    assert(ranges == Vector((from + 100, from + 1099), (from, from + PageSize - 1)))
    assert(pageFiles.size == 1)
  }

  test("a footer is kept at the first read: whoever opens the file next reads it, too") {
    val (path, data) = put(10 * PageSize + 100)
    val in = open(fileSystem(), path, "random")
    in.seek(data.length - 8L)
    assert(in.readNBytes(8) sameElements data.takeRight(8))
    in.close()
    assert(pageFiles.size == 2)
  }

  test("a small object that is read whole is read by one request, straight through") {
    val (path, data) = put(PageSize + 100)
    for (policy <- Seq("whole-file", "sequential")) {
      val fs = fileSystem(CacheSettings.MemoryDirectory -> tiers.resolve(policy).toString)
      gateway.clear()
      assert(readAll(open(fs, path, policy)) sameElements data)
      assert(ranges == Vector((0, data.length - 1)))
      assert(pageFiles.isEmpty)
    }
  }

  test("what was overwritten while it was read straight through fails the read, with or without buffers of one's own") {
    val (path, data) = put(20 * PageSize)
    val in = open(fileSystem(), path, "sequential")
    assert(in.readNBytes(PageSize) sameElements data.take(PageSize))
    in.unbuffer()
    bucket.put(path.getName, ReadsSuite.bytes(data.length, 4711))
    assertThrows[RemoteFileChangedException](in.readAllBytes())
    val failure = intercept[java.util.concurrent.ExecutionException] {
      vectored(in, Seq((3L * PageSize, 100)), ByteBuffer.allocate(_))
    }
    assert(failure.getCause.isInstanceOf[RemoteFileChangedException])
    in.close()
  }

  test("a response that breaks off goes on where it was, and no byte comes twice or is missing") {
    val (path, data) = put(20 * PageSize)
    val in = open(fileSystem(), path, "sequential")
    gateway.inject(Fault.CutAfter(3L * PageSize / 2))()
    assert(readAll(in) sameElements data)
    assert(ranges.size == 2)
  }

  test("what is read straight through is counted as coming from the store") {
    val (path, data) = put(20 * PageSize)
    val before = Counters.now()
    assert(readAll(open(fileSystem(), path, "sequential")) sameElements data)
    val after = Counters.now()
    for (name <- Seq("bytes_from_store", "bytes_fetched")) assert(after(name) - before(name) == data.length)
  }
}
