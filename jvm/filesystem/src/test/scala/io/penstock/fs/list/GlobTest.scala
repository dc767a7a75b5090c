package io.penstock.fs.list

import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.PenstockFileSystem
import io.penstock.fs.testing.Store

/** What patterns in paths match. */
class GlobTest extends AnyFunSuite with BeforeAndAfterAll {

  private lazy val bucket = Store.newBucket()

  private lazy val fs = {
    val conf = Store.conf()
    conf.set("fs.s3a.impl", classOf[PenstockFileSystem].getName)
    Store.fileSystem(bucket, conf)
  }

  override def beforeAll(): Unit = {
    super.beforeAll()
    for (key <- Seq("day=1/a.parquet", "day=2/b.parquet", "_SUCCESS", "_penstock_commit/7", "_skipindex/manifest"))
      bucket.put(s"table/$key", Array[Byte](1))
  }

  override def afterAll(): Unit =
    try fs.close()
    finally super.afterAll()

  private def matched(pattern: String): Seq[String] =
    fs.globStatus(bucket.path(pattern)).map(_.getPath.toString.stripPrefix(bucket.path("table").toString + "/")).toSeq

  test("a pattern matches a table's data, not the directories that Penstock keeps beside it") {
    assert(matched("table/*") == Seq("_SUCCESS", "day=1", "day=2"))
    assert(matched("table/*/*") == Seq("day=1/a.parquet", "day=2/b.parquet"))
    assert(fs.globStatus(bucket.path("elsewhere/*")).isEmpty && fs.globStatus(bucket.path("elsewhere")) == null)
  }

  test("who names such a directory finds it") {
    assert(matched("table/_penstock_commit/*") == Seq("_penstock_commit/7"))
    assert(matched("table/_skipindex") == Seq("_skipindex"))
    assert(fs.listStatus(bucket.path("table")).map(_.getPath.getName).contains("_penstock_commit"))
  }
}
