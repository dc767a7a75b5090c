package io.penstock.fs.read

import java.io.{EOFException, FileNotFoundException, IOException}
import java.nio.ByteBuffer
import java.nio.file.Files
import java.security.MessageDigest
import java.util.concurrent.atomic.{AtomicBoolean, AtomicInteger}
import java.util.concurrent.{ExecutionException, TimeUnit}

import scala.jdk.CollectionConverters._

import org.apache.commons.codec.binary.Hex
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataInputStream, FileRange, Path}
import org.scalatest.concurrent.Eventually._
import org.scalatest.time.SpanSugar._

import io.penstock.faults.{Fault, FaultyGateway}
import io.penstock.fs.cache.CacheSettings
import io.penstock.fs.metrics.Counters
import io.penstock.fs.testing.Trees

/** Each test is named after the failure that a reader survives, or reports as S3A does. */
abstract private[read] class FaultsContract(admission: String) extends ReadsSuite {

  override protected def settings: Map[String, String] = Map(CacheSettings.Admission -> admission)

  protected val pages = 6

  protected def cold(): (FSDataInputStream, Array[Byte], Path) = {
    val fs = fileSystem()
    val (path, data) = put(pages * PageSize)
    val in = opened(fs, fs.getFileStatus(path))
    gateway.clear()
    (in, data, path)
  }

  protected def growth(counter: Counters.Counter)(work: => Unit): Long = {
    val before = counter.value
    work
    counter.value - before
  }

  test("SlowGateway: a page that trickles in is fetched once, and the reader gets it") {
    val (in, data, _) = cold()
    gateway.inject(Fault.Slow(200L * 1024), times = 100)()
    assert(readAll(in) sameElements data)
    assert(pagesFetched.flatten.sorted == (0 until pages))
  }

  for (reset <- Seq(false, true))
    test(s"HalfAResponse: ${if (reset) "reset" else "ended"} in the middle, a fetch goes on from where it was") {
      val (in, data, _) = cold()
      gateway.inject(Fault.CutAfter(PageSize + 1000L, reset))(_.range.contains(s"bytes=0-${4 * PageSize - 1}"))
      val resumed = growth(Counters.FetchesResumed) {
        val piece = new Array[Byte](4 * PageSize)
        in.readFully(0, piece)
        assert(piece sameElements data.take(piece.length))
      }
      in.close()
      assert(resumed == 1)
      val (from, to) = ranges.last
      assert(ranges.size == 2 && to == 4 * PageSize - 1)
      assert(if (reset) from <= PageSize + 1000 else from == PageSize + 1000)
    }

  test("ConnectionReset: a request that was never answered is sent again") {
    val (in, data, _) = cold()
    gateway.inject(Fault.Reset, times = 2)()
    assert(readAll(in) sameElements data)
  }

  test("ServiceUnavailable503: an overloaded gateway is asked again, more slowly") {
    val (in, data, _) = cold()
    gateway.inject(Fault.slowDown(), times = 3)()
    assert(readAll(in) sameElements data)
  }

  test("InternalError500: and so is a broken one") {
    val (in, data, _) = cold()
    gateway.inject(Fault.InternalError, times = 2)()
    assert(readAll(in) sameElements data)
  }

  test("a gateway that stays broken fails the read as S3A does, and the next read is served when it is back") {
    val (in, data, _) = cold()
    gateway.inject(Fault.InternalError, times = 1000)()
    intercept[IOException](in.read(new Array[Byte](10)))
    gateway.heal()
    assert(readAll(in) sameElements data)
  }

  for (
    (answer, status, range) <- Seq(
      ("the whole object", 200, ""),
      ("a part of it that is not named", 206, ""),
      ("another part of it", 206, s"bytes 0-9/${pages * PageSize}")
    )
  )
    test(s"IgnoredRange: a store that answers with $answer is refused once, and what it sent is not kept") {
      val (in, data, _) = cold()
      gateway.inject(Fault.Misstated(status, Map("Content-Range" -> range)), times = 1000)(_.method == "GET")
      val refused = intercept[IOException](in.readFully(PageSize.toLong, new Array[Byte](10)))
      assert(refused.getMessage.contains(s"asked for the bytes from $PageSize on"))
      assert(ranges.size == 1)
      gateway.heal()
      assert(readAll(in) sameElements data)
    }

  for ((place, size) <- Seq("a tier with room" -> "16M", "a full tier" -> (2 * PageSize + 5000).toString))
    test(
      s"BrokenOff: a response that breaks off for good fails its read, and the next read has its own bytes; $place"
    ) {
      val tier = Seq(CacheSettings.MemorySize -> size, CacheSettings.DiskSize -> "0")
      val (path, data) = put(30 * PageSize)
      val fs = fileSystem(tier: _*)
      val in = opened(fs, fs.getFileStatus(path))
      val isCut = new AtomicBoolean
      def isLong(request: FaultyGateway.Recorded) =
        request.range
          .collect { case ReadsSuite.Bytes(first, last) => last.toLong - first.toLong }
          .exists(_ > 3 * PageSize)
      gateway.inject(Fault.CutAfter(PageSize + 12345L))(isLong(_) && isCut.compareAndSet(false, true))
      gateway.inject(Fault.InternalError, times = 1000)(_ => isCut.get)
      val piece = new Array[Byte](10000)
      var expected = 0
      intercept[IOException] {
        while (true) {
          val read = in.read(piece)
          assert(piece.take(read) sameElements data.slice(expected, expected + read))
          expected += read
        }
      }
      gateway.heal()
      val from = in.getPos.toInt
      assert(isCut.get && from > 0)
      assert(readAll(in) sameElements data.drop(from))
      assert(readAll(opened(fileSystem(tier: _*), fs.getFileStatus(path))) sameElements data)
    }

  test("a read from gigabytes behind the end finds the end") {
    val (in, data, _) = cold()
    for (behind <- Seq(1L, Int.MaxValue + 2L, 1L << 33)) {
      val at = data.length + behind
      assert(in.read(at, new Array[Byte](10), 0, 10) == -1, behind)
      assert(in.read(at, ByteBuffer.allocate(10)) == -1, behind)
      intercept[EOFException](in.readFully(at, new Array[Byte](10)))
      in.seek(at)
      assert(in.read(new Array[Byte](10)) == -1 && in.read(ByteBuffer.allocate(10)) == -1 && in.read() == -1, behind)
    }
    in.seek(0)
    assert(readAll(in) sameElements data)
  }

  test("a deleted object is not found") {
    val (in, _, path) = cold()
    bucket.delete(path.getName)
    intercept[FileNotFoundException](in.read())
    in.close()
  }

  test("a vectored read that fails tells each range, and gives back its buffer") {
    val (in, data, _) = cold()
    for (_ <- 1 to 2) in.readFully(0, new Array[Byte](10))
    gateway.inject(Fault.InternalError, times = 1000)()
    val ranges = Seq(5L, 2L * PageSize, 4L * PageSize).map(FileRange.createFileRange(_, 100))
    val released = new AtomicInteger
    in.readVectored(ranges.asJava, ByteBuffer.allocate(_), (_: ByteBuffer) => released.incrementAndGet(): Unit)
    assert(ranges.head.getData.get(60, TimeUnit.SECONDS).array sameElements data.slice(5, 105))
    for (range <- ranges.tail)
      assert(intercept[ExecutionException](range.getData.get(60, TimeUnit.SECONDS)).getCause.isInstanceOf[IOException])
    assert(released.get == 2)
    in.close()
  }

  test("FullTier: a cache far smaller than the object serves it whole") {
    val fs = fileSystem(CacheSettings.MemorySize -> (2 * PageSize + 5000).toString, CacheSettings.DiskSize -> "0")
    val (path, data) = put(30 * PageSize)
    for (_ <- 1 to 2) assert(readAll(opened(fs, fs.getFileStatus(path))) sameElements data)
  }

  test("a tier that goes away under an open stream costs requests, never an error") {
    val (in, data, _) = cold()
    assert(in.readNBytes(100) sameElements data.take(100))
    // What is being fetched ahead may make a file in it meanwhile.
    eventually(timeout(60.seconds)) {
      Trees.delete(tiers)
      Files.createFile(tiers)
    }
    assert(in.readAllBytes() sameElements data.drop(100))
    in.seek(0)
    assert(readAll(in) sameElements data)
  }

  test("no tier at all: the streams are S3A's own") {
    val off = Seq(CacheSettings.Enabled -> "false")
    val nowhere = Seq(
      CacheSettings.MemoryDirectory -> "/proc/penstock",
      CacheSettings.DiskDirectory -> "/proc/penstock"
    )
    val (path, data) = put(3 * PageSize)
    for (settings <- Seq(off, nowhere)) {
      val in = fileSystem(settings: _*).open(path)
      assert(in.getWrappedStream.getClass.getSimpleName == "S3AInputStream")
      assert(readAll(in) sameElements data)
    }
  }

  test("a stream that was closed says so, and an unbuffered one reads on") {
    val (in, data, _) = cold()
    assert(in.readNBytes(10) sameElements data.take(10))
    in.unbuffer()
    assert(in.readNBytes(10) sameElements data.slice(10, 20))
    in.close()
    in.close()
    intercept[IOException](in.read())
    intercept[IOException](in.readFully(0, new Array[Byte](1)))
    intercept[IOException](in.readVectored(java.util.List.of(FileRange.createFileRange(0, 1)), ByteBuffer.allocate(_)))
  }
}

class FaultsTest extends FaultsContract("always") {

  test("TornPage: damaged pages are dropped and fetched again") {
    val (in, data, _) = cold()
    // In one read, which leaves pages behind that this process has not looked at yet.
    in.readFully(0, new Array[Byte](data.length))
    assert(pageFiles.size == pages)
    for (file <- pageFiles) {
      val bytes = Files.readAllBytes(file)
      bytes(bytes.length / 3) = (bytes(bytes.length / 3) ^ 1).toByte
      Files.write(file, bytes)
    }
    gateway.clear()
    val damaged = growth(Counters.PagesDamaged)(assert(readAll(in) sameElements data))
    assert(damaged == pages)
    assert(pagesFetched.flatten.sorted == (0 until pages))
  }
}

/** As those meet them whose bytes come straight from the store. */
class FaultsOfFirstReadsTest extends FaultsContract("again")

/** Bytes that a gateway has damaged. */
class DamagedOnTheWayTest extends ReadsSuite {

  test("a small object whose bytes are not what its entity tag says is asked for again") {
    val (path, data) = put(PageSize - 1000)
    val fs = fileSystem()
    val status = fs.getFileStatus(path)
    gateway.clear()
    gateway.inject(Fault.Flip(5))(_.method == "GET")
    gateway.inject(Fault.Flip(6))(_.method == "GET")
    assert(readAll(opened(fs, status)) sameElements data)
    assert(ranges.size == 3)
  }

  for (piece <- Seq(1000, PageSize))
    test(s"$piece bytes at a time, a small object that is not kept is asked for again before any of it is given out") {
      val (path, data) = put(PageSize - 1000)
      val fs = fileSystem(CacheSettings.Admission -> "again")
      val status = fs.getFileStatus(path)
      gateway.clear()
      gateway.inject(Fault.Flip(data.length / 2))(_.method == "GET")
      val in = opened(fs, status)
      val read = new Array[Byte](data.length)
      for (at <- data.indices by piece) in.readFully(at.toLong, read, at, math.min(piece, data.length - at))
      in.close()
      assert(read sameElements data)
      assert(pageFiles.isEmpty || piece < data.length)
      assert(ranges.take(2) == Vector.fill(2)((0L, data.length - 1L)))
    }

  test("a store that tags otherwise is asked twice for some objects, and no more") {
    val tags = new EtagVerifier(misleadings = 2)
    val tag = Some("0123456789abcdef0123456789abcdef")
    for (_ <- 1 to 2) {
      assert(!tags.check(tag).get.agrees)
      tags.misleading()
    }
    assert(tags.check(tag).isEmpty)
    assert(new EtagVerifier().check(Some("0123-2")).isEmpty)
  }

  test("a tag is compared with the bytes as they came, whole or in pieces, of a plain upload or of one part") {
    val data = ReadsSuite.bytes(1000, 1)
    def md5(bytes: Array[Byte]) = MessageDigest.getInstance("MD5").digest(bytes)
    for {
      tag <- Seq(Hex.encodeHexString(md5(data)), Hex.encodeHexString(md5(md5(data))) + "-1")
      piece <- Seq(1, 300, 1000)
    } {
      def agrees(bytes: Array[Byte]): Boolean = {
        val check = new EtagVerifier().check(Some(tag)).get
        for (at <- bytes.indices by piece) check.add(bytes, at, math.min(piece, bytes.length - at))
        check.agrees
      }
      assert(agrees(data) && !agrees(data.updated(500, (data(500) ^ 1).toByte)))
    }
  }

  test("over TLS, which finds damage itself, bytes are not compared; where any endpoint may be without it, they are") {
    def overTls(settings: (String, String)*): Boolean = {
      val conf = new Configuration(false)
      settings.foreach { case (name, value) => conf.set(name, value) }
      StreamSettings(conf).overTls
    }
    val (endpoint, others) = ("fs.s3a.endpoint", "fs.s3a.penstock.endpoints")
    val plain = "fs.s3a.connection.ssl.enabled" -> "false"
    assert(overTls(endpoint -> "https://lake:443"))
    assert(overTls(endpoint -> "HTTPS://lake", others -> "https://lake,https://other", plain))
    assert(overTls(endpoint -> "lake:9000"))
    assert(!overTls(endpoint -> "lake:9000", plain))
    assert(!overTls(endpoint -> "http://lake:80"))
    assert(!overTls(endpoint -> "https://lake", others -> "https://lake,http://other"))
    assert(!overTls(), "the environment may set it for the SDK")

    assert(EtagVerifier.Unneeded.check(Some("0123456789abcdef0123456789abcdef")).isEmpty)
  }
}
