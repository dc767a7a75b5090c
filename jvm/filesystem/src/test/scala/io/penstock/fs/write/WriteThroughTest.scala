package io.penstock.fs.write

import java.nio.ByteBuffer
import java.nio.file.{Files, Path => FilePath}

import scala.collection.mutable
import scala.util.{Random, Using}

import org.apache.commons.codec.digest.DigestUtils
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.S3AFileSystem
import org.apache.hadoop.fs.s3a.commit.files.SinglePendingCommit
import org.apache.hadoop.fs.s3a.commit.impl.CommitOperations
import org.apache.hadoop.fs.{Abortable, FileSystem}
import org.scalacheck.Gen
import org.scalatest.BeforeAndAfterAll
import org.scalatest.concurrent.Eventually._
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.SpanSugar._
import software.amazon.awssdk.core.SdkResponse
import software.amazon.awssdk.core.interceptor.{Context, ExecutionAttributes, ExecutionInterceptor}
import software.amazon.awssdk.services.s3.model.CompleteMultipartUploadResponse

import io.penstock.fs.PenstockFileSystem
import io.penstock.fs.cache.{CacheSettings, ObjectVersion, PageCache, PageCaches}
import io.penstock.fs.metrics.Counters
import io.penstock.fs.read.PageStreamFactory
import io.penstock.fs.testing.{Properties, Requests, Store, Trees}

class WriteThroughTest extends AnyFunSuite with BeforeAndAfterAll {

  private lazy val bucket = Store.newBucket()
  private val directory: FilePath = Files.createTempDirectory("penstock-write-through-")

  private val PageSize = 64 << 10
  // The least of S3A's: an object of more goes up in parts.
  private val PartSize = 5 << 20

  private def conf(settings: (String, String)*): Configuration = {
    val conf = Store.conf()
    conf.set("fs.s3a.impl", classOf[PenstockFileSystem].getName)
    conf.set(CacheSettings.PageSize, PageSize.toString)
    conf.set(CacheSettings.MemorySize, "0")
    conf.set(CacheSettings.DiskDirectory, directory.resolve("cache").toString)
    conf.set(CacheSettings.DiskSize, "200M")
    for ((name, value) <- settings) conf.set(name, value)
    conf
  }

  private lazy val cache: PageCache = PageCaches.of(conf(), bucket.name).get

  override def afterAll(): Unit = Trees.delete(directory)

  private def data(size: Int, seed: Long = 1): Array[Byte] = new Random(seed).nextBytes(size)

  private def write(files: FileSystem, key: String, bytes: Array[Byte]): Unit =
    Using.resource(files.createFile(bucket.path(key)).overwrite(true).recursive().build())(_.write(bytes))

  /** The cached pages of the present version of the object, one by one. */
  private def cached(key: String): Vector[Option[Seq[Byte]]] = {
    val length = bucket.get(key).get.length
    val version = ObjectVersion(bucket.name, key, length.toLong, bucket.etag(key).get)
    (0L until ((length + PageSize - 1) / PageSize).toLong).map { index =>
      cache
        .find(version, index)
        .map(page =>
          Using.resource(page) { page =>
            val bytes = new Array[Byte](page.length)
            assert(page.read(0, bytes, 0, bytes.length))
            bytes.toSeq
          }
        )
    }.toVector
  }

  private def pagesOf(bytes: Array[Byte]): Vector[Option[Seq[Byte]]] =
    bytes.grouped(PageSize).map(page => Option(page.toSeq)).toVector

  /** Files of pages, those that no object's version leads to included. */
  private def pageFiles(): Int = Trees.files(directory).count(_.toString.contains("/pages/"))

  private val sizes =
    Seq("a small file" -> 1000, "whole pages" -> 3 * PageSize, "parts" -> (2 * PartSize + PageSize + 7))

  for ((what, size) <- sizes)
    test(s"all pages of $what are in the cache when the writer is done, and it sent no request more") {
      val bytes = data(size)
      def requests(through: Boolean): Map[String, Long] =
        Using.resource(Store.fileSystem(bucket, conf(CacheSettings.WriteThrough -> through.toString))) { files =>
          Requests.during(write(files, s"plain/$size", bytes))
        }
      assert(requests(through = true) == requests(through = false))
      assert(bucket.get(s"plain/$size").exists(_.sameElements(bytes)))
      assert(cached(s"plain/$size") == pagesOf(bytes))
    }

  test("a page of an upload in parts is written to the cache once") {
    val bytes = data(2 * PartSize + 3 * PageSize, seed = 5)
    val before = Counters.PagesWrittenThrough.value
    Using.resource(Store.fileSystem(bucket, conf()))(write(_, "once", bytes))
    assert(cached("once") == pagesOf(bytes))
    assert(Counters.PagesWrittenThrough.value - before == pagesOf(bytes).size)
  }

  test("parts that end within a page give the object's pages") {
    val bytes = data(3 * PartSize)
    Using.resource(Store.fileSystem(bucket, conf("fs.s3a.multipart.size" -> (PartSize + 1000).toString))) { files =>
      write(files, "unaligned", bytes)
    }
    assert(cached("unaligned") == pagesOf(bytes))
  }

  for (buffer <- Seq("disk", "array", "bytebuffer"))
    test(s"the pages are there however S3A buffers what is written: $buffer") {
      val bytes = data(PartSize + 5 * PageSize, seed = buffer.hashCode.toLong)
      Using.resource(Store.fileSystem(bucket, conf("fs.s3a.fast.upload.buffer" -> buffer))) { files =>
        write(files, s"buffered/$buffer", bytes)
      }
      assert(cached(s"buffered/$buffer") == pagesOf(bytes))
    }

  test("an object that is overwritten has the pages of the new one") {
    Using.resource(Store.fileSystem(bucket, conf())) { files =>
      for (seed <- 1L to 3L) {
        write(files, "overwritten", data(2 * PageSize, seed))
        assert(cached("overwritten") == pagesOf(data(2 * PageSize, seed)))
      }
    }
  }

  test("a write that is aborted leaves no page behind, of whatever part") {
    val before = pageFiles()
    Using.resource(Store.fileSystem(bucket, conf())) { files =>
      val stream = files.createFile(bucket.path("aborted")).build()
      stream.write(data(2 * PartSize + 1000, seed = 77))
      stream.getWrappedStream.asInstanceOf[Abortable].abort()
      stream.close()
    }
    assert(bucket.get("aborted").isEmpty && bucket.pendingUploads().isEmpty)
    // A part may have been on its way.
    eventually(timeout(60.seconds))(assert(pageFiles() == before))
  }

  for (size <- Seq(1000, PartSize, 2 * PartSize + PageSize + 7))
    test(s"a committer's file of $size bytes has its pages, though another completes its upload") {
      val bytes = data(size, seed = 80)
      val name = s"part-$size"
      val magic = bucket.path(s"table/__magic_job-1/job/0/tasks/1/__base/$name")
      Using.resource(Store.fileSystem(bucket, conf()))(files => Using.resource(files.create(magic))(_.write(bytes)))
      assert(bucket.get(s"table/$name").isEmpty)
      // As a driver does, with what the task has left for it in the store.
      Using.resource(Store.fileSystem(bucket, conf(CacheSettings.Enabled -> "false"))) { files =>
        val pending = SinglePendingCommit.serializer().load(files, magic.suffix(".pending"))
        val parts = CommitOperations.toPartEtags(pending.getEtags)
        val operations = files.asInstanceOf[S3AFileSystem].getWriteOperationHelper
        operations.commitUpload(pending.getDestinationKey, pending.getUploadId, parts, pending.getLength)
      }
      assert(bucket.get(s"table/$name").exists(_.sameElements(bytes)))
      assert(cached(s"table/$name") == pagesOf(bytes))
    }

  for (size <- Seq(3 * PageSize + 5, 2 * PartSize + 9))
    test(s"what was written, $size bytes, is read with one HEAD and no GET") {
      val bytes = data(size, seed = 81)
      val key = s"read/$size"
      val reads = Seq(
        "fs.s3a.input.stream.type" -> "custom",
        "fs.s3a.input.stream.custom.factory" -> classOf[PageStreamFactory].getName
      )
      Using.resource(Store.fileSystem(bucket, conf(reads: _*)))(write(_, key, bytes))
      Using.resource(Store.fileSystem(bucket, conf(reads: _*))) { files =>
        val requests = Requests.during {
          val read = Using.resource(files.open(bucket.path(key)))(_.readAllBytes())
          assert(read.sameElements(bytes))
        }
        assert(requests == Map("HEAD" -> 1))
      }
    }

  test("an upload in parts has its pages, though the store's answer to its completion names no tag, as Ceph 16's") {
    val bytes = data(2 * PartSize + PageSize + 7, seed = 82)
    val untagged = "fs.s3a.audit.execution.interceptors" -> classOf[CompletionsWithoutTag].getName
    Using.resource(Store.fileSystem(bucket, conf(untagged)))(write(_, "untagged", bytes))
    assert(cached("untagged") == pagesOf(bytes))
  }

  test("switched off, nothing is kept") {
    val before = pageFiles()
    for (off <- Seq(CacheSettings.WriteThrough, CacheSettings.Enabled))
      Using.resource(Store.fileSystem(bucket, conf(off -> "false")))(write(_, "off", data(PageSize, seed = 79)))
    assert(pageFiles() == before)
  }
}

/** The SDK's hook that makes a store of one that names no tag where an upload is completed. */
class CompletionsWithoutTag extends ExecutionInterceptor {

  override def modifyResponse(context: Context.ModifyResponse, attributes: ExecutionAttributes): SdkResponse =
    context.response match {
      case completed: CompleteMultipartUploadResponse => completed.toBuilder.eTag("").build()
      case other => other
    }
}

class PageAssemblyTest extends AnyFunSuite with Properties {

  private val PageSize = 16

  private val pieces =
    Gen.listOf(Gen.frequency(1 -> Gen.const(0), 5 -> Gen.choose(1, 3 * PageSize), 1 -> Gen.const(PageSize)))

  /** The pages that come of these pieces, of which those named are not to be had. */
  private def pages(data: Array[Byte], sizes: Seq[Int], lost: Set[Int]): Map[Long, Seq[Byte]] = {
    val kept = mutable.Map.empty[Long, Seq[Byte]]
    def keep(index: Long, page: ByteBuffer): Unit = {
      val bytes = new Array[Byte](page.remaining)
      page.get(bytes)
      assert(kept.put(index, bytes.toSeq).isEmpty, s"page $index was kept twice")
    }
    val assembly = new PageAssembly(data.length.toLong, PageSize, keep)
    for (((size, start), number) <- sizes.zip(sizes.scanLeft(0)(_ + _)).zipWithIndex)
      assembly.add(size.toLong) { (position, into) =>
        into.put(data, start + position.toInt, into.remaining)
        !lost.contains(number)
      }
    kept.toMap
  }

  test("pieces of any size give the pages that the whole gives") {
    forAll(pieces, Gen.long) { (sizes, seed) =>
      val data = new Random(seed).nextBytes(sizes.sum)
      val expected = data.grouped(PageSize).zipWithIndex.map { case (page, index) => index.toLong -> page.toSeq }.toMap
      assert(pages(data, sizes, Set.empty) == expected)
    }
  }

  test("a piece that is lost takes the pages that need it, and no other") {
    forAll(pieces, Gen.choose(0, 10), Gen.long) { (sizes, lost, seed) =>
      val data = new Random(seed).nextBytes(sizes.sum)
      val starts = sizes.scanLeft(0)(_ + _)
      val damaged = sizes.indices.filter(_ == lost).flatMap(i => starts(i) until starts(i + 1)).map(_ / PageSize).toSet
      val expected = data
        .grouped(PageSize)
        .zipWithIndex
        .collect {
          case (page, index) if !damaged(index) => index.toLong -> page.toSeq
        }
        .toMap
      assert(pages(data, sizes, Set(lost)) == expected)
    }
  }
}

class PartialObjectTest extends AnyFunSuite {

  private val upload = PartialObject("lake", "table/part-0", "id")
  private def part(text: String, last: Boolean = false) =
    UploadedPart(text.length.toLong, DigestUtils.md5Hex(text), last)

  test("the tag of a multipart object is known from its parts' tags, whatever order they came in") {
    val parts = upload + (2 -> part("two", last = true)) + (1 -> part("one."))
    // printf 'one.' | md5sum, printf 'two' | md5sum, and the MD5 of the two in binary.
    val tag = DigestUtils.md5Hex(DigestUtils.md5("one.") ++ DigestUtils.md5("two"))
    assert(parts.predicted.map(id => (id.key, id.length, id.etag)).contains(("table/part-0", 7L, s"$tag-2")))
  }

  test("no object comes of an upload that lacks a part, or has none") {
    assert(upload.predicted.isEmpty && upload.completed("tag").isEmpty)
    assert((upload + (2 -> part("two"))).completed("tag").isEmpty)
    assert((upload + (1 -> part("one")) + (3 -> part("three"))).predicted.isEmpty)
  }

  test("a part whose tag is no MD5 foretells nothing") {
    for (tag <- Seq("kms-encrypted", "abcd", ""))
      assert((upload + (1 -> UploadedPart(3, tag, last = true))).predicted.isEmpty)
  }

  test("the only part of an upload has the object's name from the start; other parts have names of their own") {
    val only = upload + (1 -> part("only", last = true))
    assert(only.predicted.contains(only.name(1)))
    val both = upload + (1 -> part("one")) + (2 -> part("one", last = true))
    assert(Set(both.name(1), both.name(2)).size == 2)
    assert(!both.predicted.exists(object_ => both.name(1) == object_ || both.name(2) == object_))
  }
}
