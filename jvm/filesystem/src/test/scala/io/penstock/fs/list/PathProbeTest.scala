package io.penstock.fs.list

import java.io.FileNotFoundException
import java.net.URI
import java.nio.file.AccessDeniedException

import scala.collection.immutable.TreeSet
import scala.util.{Try, Using}

import org.apache.hadoop.fs.s3a.S3AFileSystem
import org.apache.hadoop.fs.{EtagSource, FileStatus, FileSystem, Path}
import org.scalacheck.Gen
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.penstock.fs.PenstockFileSystem
import io.penstock.fs.testing.{Requests, Store}

class PathProbeTest extends AnyFunSuite with ScalaCheckPropertyChecks {

  private def probe(keys: String*): PathProbe = {
    val held = TreeSet.from(keys)
    new PathProbe((prefix, objects) => {
      val found = held.iteratorFrom(prefix).takeWhile(_.startsWith(prefix)).toVector
      KeyPage(found.take(objects).map(ListedObject(_, 1, 0, "tag")), last = found.size <= objects)
    })
  }

  test("what one listing tells is what is there, whatever stands beside it") {
    // Before `/`, after it, and nothing: the neighbours of a name.
    val name = Gen.oneOf("t", "t-", "t!x", "t0", "tt", "s", "u")
    val key = Gen.oneOf(name, name.map(_ + "/"), Gen.zip(name, name).map { case (a, b) => s"$a/$b" })
    forAll(Gen.listOf(key), name, minSuccessful(1000)) { (keys, asked) =>
      val is =
        if (keys.contains(asked)) FoundPath.Object(ListedObject(asked, 1, 0, "tag"))
        else if (keys.exists(_.startsWith(s"$asked/"))) FoundPath.Directory
        else FoundPath.Nothing
      probe(keys: _*).find(asked).foreach(found => assert(found == is, keys))
    }
  }

  test("neighbours that stand before a directory leave the question to S3A") {
    assert(probe("t-1", "t/a").find("t").contains(FoundPath.Directory))
    assert(probe("t-1", "t-2", "t/a").find("t").isEmpty)
    assert(probe("t-1", "t-2").find("t").contains(FoundPath.Nothing))
    assert(probe("t-1", "t_2", "t_3").find("t").contains(FoundPath.Nothing))
  }

  test("who may not list is refused once") {
    var asked = 0
    val refused = new PathProbe((_, _) => {
      asked += 1
      throw new AccessDeniedException("t")
    })
    assert(refused.find("t").isEmpty && refused.find("u").isEmpty && asked == 1)
  }
}

class PathStatusTest extends AnyFunSuite with BeforeAndAfterAll {

  private lazy val bucket = {
    val made = Store.newBucket()
    val keys = Seq("w/table/part-0", "w/table/day=1.5/x", "w/table.bak/x", "w/ü %20/x", "w/plain", "w/part-1", "w/a.b")
    for (key <- keys) made.put(key, Array[Byte](1, 2, 3))
    made
  }

  private def fileSystem(of: Class[_ <: FileSystem]): FileSystem = {
    val conf = Store.conf()
    conf.set("fs.s3a.impl", of.getName)
    Store.fileSystem(bucket, conf)
  }

  private lazy val files = fileSystem(classOf[PenstockFileSystem])
  private lazy val s3a = fileSystem(classOf[S3AFileSystem])

  override def afterAll(): Unit = Seq(files, s3a).foreach(_.close())

  /**
   * All that callers may see of a status, but times: a HEAD request's has no milliseconds, and directories have none.
   */
  private def seen(status: FileStatus): Seq[Any] = Seq(
    status.getPath,
    status.getLen,
    status.getBlockSize,
    status.getOwner,
    status.isDirectory,
    status.asInstanceOf[EtagSource].getEtag
  )

  private val present = Seq("w", "w/table", "w/table/day=1.5", "w/table.bak", "w/ü %20", "w/plain", "w/part-1", "w/a.b")
  private val absent = Seq("w/tab", "w/table/_spark_metadata", "w/table/part-1", "w/plain/x", "w/a.c", "x")

  for (key <- present)
    test(s"“$key” has the status that S3A gives it") {
      val path = bucket.path(key)
      assert(seen(files.getFileStatus(path)) == seen(s3a.getFileStatus(path)))
      assert(files.exists(path))
    }

  for (key <- absent)
    test(s"“$key” is missing in S3A's words") {
      val path = bucket.path(key)
      def said(from: FileSystem): String = Try(from.getFileStatus(path)).failed.get match {
        case missing: FileNotFoundException => missing.getMessage
        case other => throw other
      }
      assert(said(files) == said(s3a))
      assert(!files.exists(path))
    }

  test("a directory, and what is looked for in it in vain, is one request each; so is a file by its suffix") {
    def requests(key: String): Map[String, Long] = Requests.during(files.exists(bucket.path(key)): Unit)
    assert(Requests.during(files.getFileStatus(bucket.path("w/table")): Unit) == Map("LIST" -> 1))
    for (key <- Seq("w/table/day=1.5", "w/table/_spark_metadata", "w/plain")) assert(requests(key) == Map("LIST" -> 1))
    for (key <- Seq("w/a.b", "w/part-1")) assert(requests(key) == Map("HEAD" -> 1))
  }

  test("a bucket that is not there is S3A's failure, not an answer") {
    val nowhere = URI.create("s3a://penstock-no-such-bucket/")
    def failure(of: Class[_ <: FileSystem]): Class[_] = {
      val conf = Store.conf()
      conf.set("fs.s3a.impl", of.getName)
      Using.resource(FileSystem.newInstance(nowhere, conf)) { files =>
        Try(files.exists(new Path(nowhere.resolve("table")))).failed.get.getClass
      }
    }
    assert(failure(classOf[PenstockFileSystem]) == failure(classOf[S3AFileSystem]))
  }

  test("a closed file system refuses") {
    val closed = fileSystem(classOf[PenstockFileSystem])
    closed.close()
    assert(Try(closed.getFileStatus(bucket.path("w/table"))).isFailure)
  }
}
