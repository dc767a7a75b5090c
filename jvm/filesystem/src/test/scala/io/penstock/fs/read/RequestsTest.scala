package io.penstock.fs.read

import java.nio.ByteBuffer
import java.util.concurrent.{CountDownLatch, Executors, TimeUnit}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.s3a.RemoteFileChangedException
import org.apache.hadoop.fs.{FSDataInputStream, FileRange, FileStatus, FileSystem, Path}
import org.scalatest.concurrent.Eventually._
import org.scalatest.time.SpanSugar._

import io.penstock.faults.Fault
import io.penstock.fs.PenstockFileSystem
import io.penstock.fs.cache.CacheSettings
import io.penstock.fs.metrics.Counters
import io.penstock.fs.testing.Store

/** Which requests reads send. */
class RequestsTest extends ReadsSuite {

  test("opening sends no request, whoever knows the status") {
    val fs = fileSystem()
    val (path, _) = put(5 * PageSize)
    val status = fs.getFileStatus(path)
    gateway.clear()
    opened(fs, status).close()
    assert(gateway.requests.isEmpty)
  }

  test("a sequential reader of a cold object fetches every page once, with ever larger requests") {
    val fs = fileSystem()
    val (path, data) = put(20 * PageSize + 100)
    val status = fs.getFileStatus(path)
    gateway.clear()
    assert(readAll(opened(fs, status)) sameElements data)
    val pages = pagesFetched
    assert(pages.sortBy(_.start) == Vector(0 to 0, 1 to 2, 3 to 6, 7 to 14, 15 to 20))
  }

  test("who knows a length alone, as Spark where it infers a schema, asks for the version of pages that are here") {
    val fs = fileSystem()
    val (path, data) = put(5 * PageSize)
    readAll(fs.open(path))
    def footer(length: Int): Array[Byte] = {
      val in = opened(fs, new FileStatus(data.length.toLong, false, 0, 0, 0, path))
      val bytes = new Array[Byte](length)
      in.readFully(data.length.toLong - length, bytes)
      in.close()
      bytes
    }
    gateway.clear()
    assert(footer(1000) sameElements data.takeRight(1000))
    assert(confirmations == 1 && pagesFetched.isEmpty)
  }

  test("a reader that is announced as sequential begins with the largest request") {
    val fs = fileSystem()
    val (path, data) = put(20 * PageSize)
    val in = fs.openFile(path).opt("fs.option.openfile.read.policy", "sequential").build().get()
    gateway.clear()
    assert(readAll(in) sameElements data)
    assert(pagesFetched.sortBy(_.start) == Vector(0 to 0, 1 to 8, 9 to 16, 17 to 19))
  }

  for (policy <- Seq("adaptive", "sequential", "random"))
    test(s"$policy: a reader whose reads end in the middle of pages sends the requests of one who stops at each") {
      def requests(pieces: Int, read: (FSDataInputStream, Array[Byte]) => Unit): Vector[Range] = {
        val fs = fileSystem()
        val (path, data) = put(20 * PageSize + 100)
        val in = fs.openFile(path).opt("fs.option.openfile.read.policy", policy).build().get()
        gateway.clear()
        for (expected <- data.grouped(pieces)) {
          val piece = new Array[Byte](expected.length)
          read(in, piece)
          assert(piece sameElements expected)
        }
        in.close()
        pagesFetched.sortBy(_.start)
      }
      def fully(in: FSDataInputStream, into: Array[Byte]): Unit = in.readFully(into)
      def intoBuffer(in: FSDataInputStream, into: Array[Byte]): Unit = {
        val buffer = ByteBuffer.wrap(into)
        while (buffer.hasRemaining) assert(in.read(buffer) > 0)
      }
      val stopping = requests(PageSize / 4, fully)
      assert(stopping.last.size > 2 && stopping.map(_.size).sum == 21)
      assert(requests(1000, fully) == stopping)
      assert(requests(1000, intoBuffer) == stopping)
      assert(requests(PageSize - 1000, fully).map(_.size).sum == 21)
    }

  test("a reader of a split asks for nothing behind its end, but for the page its last record ends on") {
    val fs = fileSystem("fs.s3a.impl" -> classOf[PenstockFileSystem].getName)
    val (path, data) = put(40 * PageSize)
    val (start, end) = (10 * PageSize, 20 * PageSize)
    gateway.clear()
    val in = fs
      .openFile(path)
      .opt("fs.option.openfile.read.policy", "sequential")
      .optLong("fs.option.openfile.split.start", start.toLong)
      .optLong("fs.option.openfile.split.end", end.toLong)
      .build()
      .get()
    in.seek(start.toLong)
    val piece = new Array[Byte](10 * PageSize + 100)
    for (from <- piece.indices by 1000) in.readFully(piece, from, math.min(1000, piece.length - from))
    in.close()
    assert(piece sameElements data.slice(start, end + 100))
    assert(pagesFetched.sortBy(_.start) == Vector(10 to 10, 11 to 18, 19 to 19, 20 to 20))
  }

  test("one long read of what is here is not taken for reading on by a random reader") {
    val fs = fileSystem()
    val (path, data) = put(20 * PageSize)
    def open() = fs.openFile(path).opt("fs.option.openfile.read.policy", "random").build().get()
    val first = open()
    first.readFully(2 * PageSize + 10L, new Array[Byte](6 * PageSize))
    first.close()
    gateway.clear()
    val in = open()
    for (_ <- 1 to 3) {
      val piece = new Array[Byte](5 * PageSize)
      in.seek(2 * PageSize + 10L)
      in.readFully(piece)
      assert(piece sameElements data.slice(2 * PageSize + 10, 7 * PageSize + 10))
    }
    in.close()
    assert(pagesFetched.isEmpty)
  }

  test("a random reader of a cold object fetches its pages and no other") {
    val fs = fileSystem()
    val (path, data) = put(20 * PageSize)
    val in = fs.openFile(path).opt("fs.option.openfile.read.policy", "random").build().get()
    gateway.clear()
    val piece = new Array[Byte](1000)
    for (page <- Seq(7, 3, 12, 7)) {
      in.seek(page * PageSize + 500L)
      in.readFully(piece)
      assert(piece sameElements data.slice(page * PageSize + 500, page * PageSize + 1500))
    }
    in.close()
    assert(pagesFetched == Vector(7 to 7, 3 to 3, 12 to 12))
  }

  test("positional reads fetch their pages and no other, next to each other with one request") {
    val fs = fileSystem()
    val (path, data) = put(20 * PageSize)
    val in = opened(fs, fs.getFileStatus(path))
    gateway.clear()
    val piece = new Array[Byte](3 * PageSize)
    in.readFully(4L * PageSize + 10, piece)
    assert(piece sameElements data.slice(4 * PageSize + 10, 7 * PageSize + 10))
    assert(in.getPos == 0)
    in.close()
    assert(pagesFetched == Vector(4 to 7))
  }

  test("what is warm sends no request at all, in another file system and in any order") {
    val (path, data) = nextAged()
    val fs = fileSystem()
    val status = fs.getFileStatus(path)
    assert(readAll(opened(fs, status)) sameElements data)
    gateway.clear()
    val another = fileSystem()
    val in = opened(another, status)
    val piece = new Array[Byte](PageSize)
    in.readFully(3L * PageSize + 7, piece)
    assert(piece sameElements data.slice(3 * PageSize + 7, 4 * PageSize + 7))
    assert(readAll(in) sameElements data)
    assert(gateway.requests.isEmpty)
  }

  test("a small object comes whole with the first read of any part") {
    val fs = fileSystem()
    val (path, data) = put(PageSize + 100)
    val in = opened(fs, fs.getFileStatus(path))
    gateway.clear()
    val end = new Array[Byte](10)
    in.readFully(PageSize + 90L, end)
    in.readFully(0, end)
    in.close()
    assert(end sameElements data.take(10))
    assert(ranges == Vector((0, PageSize + 99)))
  }

  test("the first read near the end brings a footer's page of bytes, and reading on there sends nothing") {
    val fs = fileSystem()
    val (path, data) = put(10 * PageSize + 100)
    val in = opened(fs, fs.getFileStatus(path))
    gateway.clear()
    in.seek(data.length - 8L)
    assert(in.readNBytes(8) sameElements data.takeRight(8))
    in.seek(data.length - 30000L)
    assert(in.readAllBytes() sameElements data.takeRight(30000))
    in.close()
    assert(pagesFetched == Vector(9 to 10))
  }

  test("a vectored read joins neighbours, goes around holes, and sends nothing for what is there") {
    val fs = fileSystem()
    val (path, data) = put(20 * PageSize)
    val in = opened(fs, fs.getFileStatus(path))
    in.readFully(11L * PageSize, new Array[Byte](10))
    gateway.clear()
    val wanted =
      Seq((10L, 20), (1000L, PageSize), (5L * PageSize, 100), (11L * PageSize + 5, 50), (15L * PageSize - 1, 2))
    val ranges = wanted.map { case (offset, length) => FileRange.createFileRange(offset, length) }
    in.readVectored(ranges.asJava, java.nio.ByteBuffer.allocate(_))
    assert(ranges(3).getData.isDone, "a range that is there is complete at once")
    for (range <- ranges) {
      val buffer = range.getData.get(60, TimeUnit.SECONDS)
      val bytes = new Array[Byte](buffer.remaining)
      buffer.get(bytes)
      assert(bytes sameElements data.slice(range.getOffset.toInt, range.getOffset.toInt + range.getLength))
    }
    in.close()
    assert(pagesFetched.sortBy(_.start) == Vector(0 to 1, 5 to 5, 14 to 15))
  }

  test("pages smaller than the shortest seek are read over when neighbours on both sides are wanted") {
    val fs = fileSystem("fs.s3a.vectored.read.min.seek.size" -> (PageSize + 1).toString)
    val (path, data) = put(8 * PageSize)
    val in = opened(fs, fs.getFileStatus(path))
    in.readFully(3L * PageSize, new Array[Byte](1))
    gateway.clear()
    val piece = new Array[Byte](3 * PageSize)
    in.readFully(2L * PageSize, piece)
    assert(piece sameElements data.slice(2 * PageSize, 5 * PageSize))
    in.close()
    assert(pagesFetched == Vector(2 to 4))
  }

  for (knows <- Seq("knows the version", "learns the version"))
    test(s"many threads that miss one page send one request, when the caller $knows") {
      val fs = fileSystem()
      val (path, data) = put(6 * PageSize)
      val status = fs.getFileStatus(path)
      def in() =
        if (knows.startsWith("knows")) fs.openFile(path).withFileStatus(status).build().get() else opened(fs, status)
      gateway.clear()
      gateway.inject(Fault.Delay(200))()
      val threads = Executors.newFixedThreadPool(8)
      val start = new CountDownLatch(1)
      val results = (1 to 8).map { i =>
        threads.submit { () =>
          val stream = in()
          start.await()
          val piece = new Array[Byte](100)
          stream.readFully(2L * PageSize + i, piece)
          stream.close()
          piece sameElements data.slice(2 * PageSize + i, 2 * PageSize + i + 100)
        }
      }
      start.countDown()
      assert(results.forall(_.get(60, TimeUnit.SECONDS)))
      threads.shutdown()
      assert(pagesFetched == Vector(2 to 2))
    }
}

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

  test("a scan's bytes come to its buffer through at most twelve methods of Penstock") {
    val (path, data) = put(20 * PageSize)
    val in = open(fileSystem(), path, "sequential")
    gateway.inject(Fault.Slow(bytesPerSecond = 500000L))()
    val reader = new Thread(() => in.readAllBytes(): Unit)
    reader.start()
    val own = eventually(timeout(20.seconds)) {
      val frames = reader.getStackTrace.toSeq.takeWhile(!_.getClassName.endsWith("DataInputStream"))
      assert(frames.exists(_.getMethodName == "streamRead") && frames.exists(_.getClassName.contains("ContentLength")))
      frames.filter(_.getClassName.startsWith("io.penstock."))
    }
    val methods =
      own.filterNot(frame => s"${frame.getClassName}.${frame.getMethodName}".matches(".*([$]anonfun|[$][$]Lambda).*"))
    gateway.heal()
    reader.join()
    assert(methods.size <= 12, methods.mkString("\n"))
  }
}
