package io.penstock.fs.list

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{EtagSource, FileStatus}
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.testing.{Requests, Store}
import io.penstock.fs.{CacheSettings, PenstockFileSystem}

object ListedPartitionsTest {

  /** Nobody pauses and nothing grows old: how fast this machine lists is not what is tested. */
  class OutOfTime extends PenstockFileSystem {
    override protected def now(): Long = 0
  }
}

class ListedPartitionsTest extends AnyFunSuite {

  private val Days = 60

  private lazy val bucket = {
    val made = Store.newBucket()
    for (day <- 0 until Days) made.put(f"table/day=$day%02d %%20ü/part-0", Array.fill(day + 1)(1))
    made
  }

  private def conf(settings: (String, String)*): Configuration = {
    val conf = Store.conf()
    conf.set("fs.s3a.impl", classOf[ListedPartitionsTest.OutOfTime].getName)
    settings.foreach { case (name, value) => conf.set(name, value) }
    conf
  }

  /** All that callers may see of a status. */
  private def seen(status: FileStatus): Seq[Any] = Seq(
    status.getPath,
    status.getLen,
    status.getModificationTime,
    status.getBlockSize,
    status.getOwner,
    status.isDirectory,
    status.asInstanceOf[EtagSource].getEtag
  )

  private def listed(settings: (String, String)*): (Seq[Seq[Any]], Map[String, Long]) =
    Using.resource(Store.fileSystem(bucket, conf(settings: _*))) { files =>
      val days = files.listStatus(bucket.path("table")).map(_.getPath).toSeq
      var all = Seq.empty[FileStatus]
      val requests = Requests.during { all = days.flatMap(files.listStatus(_)) }
      (all.map(seen), requests)
    }

  test("the partitions of a table are listed by three requests, and are what S3A lists by one for each") {
    val (together, few) = listed()
    val (alone, many) = listed(ListAhead.Enabled -> "false")
    assert(together == alone && alone.size == Days)
    assert(few == Map("LIST" -> 3) && many == Map("LIST" -> Days))
  }

  test("strictness lists each by itself") {
    val (_, requests) = listed(CacheSettings.Strict -> "true")
    assert(requests == Map("LIST" -> Days))
  }

  test("what this process does to a table is in its next listing, by whichever file system it was done") {
    val own = Store.newBucket()
    for (day <- 10 until 20) own.put(s"table/day=$day/part-0", Array(1))
    Using.resource(Store.fileSystem(own, conf())) { lister =>
      Using.resource(Store.fileSystem(own, conf())) { writer =>
        def files(day: Int): Seq[String] =
          lister.listStatus(own.path(s"table/day=$day")).map(_.getPath.getName).toSeq
        (10 to 12).foreach(files)
        writer.create(own.path("table/day=13/own"), true).close()
        assert(files(13) == Seq("own", "part-0"))
        files(14)
        writer.delete(own.path("table/day=15/part-0"), false)
        assert(scala.util.Try(files(15)).getOrElse(Nil).filter(_ != "").isEmpty)
        writer.rename(own.path("table/day=16/part-0"), own.path("table/day=17/moved"))
        assert(files(17) == Seq("moved", "part-0"))
      }
    }
  }
}
