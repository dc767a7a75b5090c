package io.penstock.fs.list

import scala.collection.immutable.TreeMap
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{EtagSource, FileStatus}
import org.scalacheck.Gen
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.penstock.fs.PenstockFileSystem
import io.penstock.fs.cache.CacheSettings
import io.penstock.fs.testing.{Requests, Store}

class ListingPrefetcherTest extends AnyFunSuite with ScalaCheckPropertyChecks {
  import ListingPrefetcherTest._

  private def days(count: Int, files: Int = 1): Seq[String] =
    for {
      day <- 0 until count
      file <- 0 until files
    } yield f"table/day=$day%04d/part-$file"

  test("partitions listed in turn take pages of them, not a request each") {
    val store = new ModelStore(days(1830))
    for (day <- 0 until 1830) assert(store.list(f"table/day=$day%04d") == Seq(f"table/day=$day%04d/part-0"))
    // One that is listed alone, then pages of 50, 250 and 1,000.
    assert(store.alone == 1 && store.pages == Seq(50, 250, 1000, 1000))
  }

  test("a partition that is listed by itself is one plain request") {
    val store = new ModelStore(days(100))
    for (day <- Seq(3, 50, 12)) {
      store.list(f"table/day=$day%04d")
      store.pass(Siblings.Pause + 1)
    }
    assert(store.alone == 3 && store.pages.isEmpty)
  }

  test("partitions picked here and there take small pages, one each at most") {
    val store = new ModelStore(days(2000))
    for (day <- 0 until 2000 by 100) store.list(f"table/day=$day%04d")
    assert(store.alone == 1 && store.pages == Seq.fill(19)(Siblings.FirstPage))
  }

  test("what was not asked for in time is asked for again, and sees what was written since") {
    val store = new ModelStore(days(20))
    (0 to 2).foreach(day => store.list(f"table/day=$day%04d"))
    store.write("table/day=0003/late")
    store.pass(Siblings.Pause + 1)
    assert(store.list("table/day=0003") == Seq("table/day=0003/late", "table/day=0003/part-0"))
  }

  test("a lister that never pauses hears nothing that is older than a second") {
    val store = new ModelStore(days(40))
    store.list("table/day=0000")
    store.list("table/day=0001")
    store.write("table/day=0039/late")
    for (day <- 2 to 38) {
      store.pass(Siblings.MaxAge / 20)
      store.list(f"table/day=$day%04d")
    }
    assert(store.list("table/day=0039").size == 2)
  }

  test("what this process writes or deletes is in the next listing, also where that was learnt ahead") {
    val store = new ModelStore(days(20))
    (0 to 2).foreach(day => store.list(f"table/day=$day%04d"))
    store.write("table/day=0003/own")
    store.ahead.changed("table/day=0003/own")
    assert(store.list("table/day=0003").size == 2)
    store.delete("table/day=0004/part-0")
    store.delete("table/day=0005/part-0")
    // A directory above them was renamed, say.
    store.ahead.changed("table")
    assert(store.list("table/day=0004").isEmpty && store.list("table/day=0005").isEmpty)
  }

  test("what this process writes while a page is on its way is in the next listing") {
    val store = new ModelStore(days(20))
    store.list("table/day=0000")
    store.whileListing = () => {
      store.write("table/day=0002/own")
      store.ahead.changed("table/day=0002/own")
    }
    store.list("table/day=0001")
    store.whileListing = () => ()
    assert(store.list("table/day=0002").size == 2)
  }

  test("what one thread learnt ahead is not another's to use") {
    val store = new ModelStore(days(20))
    (0 to 2).foreach(day => store.list(f"table/day=$day%04d"))
    store.write("table/day=0003/late")
    var heard = Seq.empty[String]
    val other = new Thread(() => heard = store.list("table/day=0003"))
    other.start()
    other.join()
    assert(heard.size == 2)
  }

  test("each answer is given once: who lists a partition again sees it as it is") {
    val store = new ModelStore(days(20))
    (0 to 5).foreach(day => store.list(f"table/day=$day%04d"))
    store.write("table/day=0005/late")
    assert(store.list("table/day=0005").size == 2)
  }

  test("partitions larger than any page, or with directories inside, cost two pages in vain and no more") {
    val large = new ModelStore(days(10, files = 1200))
    (0 until 10).foreach(day => assert(large.list(f"table/day=$day%04d").size == 1200))
    assert(large.pages == Seq(50, 1000))

    val nested = new ModelStore((0 until 10).map(day => s"table/day=$day/hour=1/part-0"))
    (0 until 10).foreach(day => nested.list(s"table/day=$day"))
    assert(nested.alone == 10 && nested.pages == Seq(50, 1000))
  }

  test("directories that are no partitions are listed as ever") {
    val store = new ModelStore((0 until 10).map(i => s"logs/run-$i/out"))
    (0 until 10).foreach(i => store.list(s"logs/run-$i"))
    assert(store.alone == 10 && store.pages.isEmpty)
  }

  test("every answer is what the store held at some time within the last second") {
    forAll(histories, minSuccessful(300)) { history =>
      val store = new ModelStore(days(12, files = 2) ++ Seq("table/_SUCCESS", "table/day=0004/", "table/day=0006/x/y"))
      history.foreach {
        case List(day) => assert(store.heldLately(day, store.list(day)), day)
        case Write(key) => store.write(key)
        case Delete(key) => store.delete(key)
        case Pass(nanoseconds) => store.pass(nanoseconds)
      }
    }
  }
}

object ListingPrefetcherTest {

  sealed trait Step
  case class List(directory: String) extends Step
  case class Write(key: String) extends Step
  case class Delete(key: String) extends Step
  case class Pass(nanoseconds: Long) extends Step

  private val day = Gen.choose(0, 13).map(day => f"table/day=$day%04d")
  private val key = Gen.zip(day, Gen.oneOf("part-0", "part-1", "a", "")).map { case (day, name) => s"$day/$name" }

  private val histories: Gen[Seq[Step]] = Gen.listOf(
    Gen.frequency(
      12 -> day.map(List),
      2 -> key.map(Write),
      2 -> key.map(Delete),
      3 -> Gen.choose(0L, Siblings.Pause).map(Pass),
      1 -> Gen.choose(0L, 2 * Siblings.MaxAge).map(Pass)
    )
  )

  /** A store in memory whose clock goes on by command, and which remembers what it held when. */
  private class ModelStore(keys: Seq[String]) extends ListingPrefetcher.Pages {

    private var now = 1L
    private var held = TreeMap.from(keys.map(_ -> ()))
    private var past = Seq(now -> held)

    var alone = 0
    var pages = Seq.empty[Int]

    val ahead = new ListingPrefetcher(this, () => now)
    var whileListing: () => Unit = () => ()

    def pass(nanoseconds: Long): Unit = now += nanoseconds

    def write(key: String): Unit = change(held + (key -> ()))

    def delete(key: String): Unit = change(held - key)

    private def change(next: TreeMap[String, Unit]): Unit = {
      held = next
      past = past :+ (now -> held)
    }

    override def page(prefix: String, after: String, objects: Int): KeyPage = {
      pages = pages :+ objects
      val all = held.keysIteratorFrom(after).filter(_ != after).takeWhile(_.startsWith(prefix)).toVector
      whileListing()
      KeyPage(all.take(objects).map(ListedObject(_, 1, 0, "tag")), last = all.size <= objects)
    }

    def list(directory: String): Seq[String] =
      ahead.list(directory, { alone += 1; inside(held, directory) })(_.map(_.key))

    def heldLately(directory: String, answer: Seq[String]): Boolean = {
      val since = past.lastIndexWhere(_._1 <= now - Siblings.MaxAge).max(0)
      past.drop(since).exists { case (_, then) => inside(then, directory) == answer }
    }

    /** As S3A lists: files, and each directory once. */
    private def inside(keys: TreeMap[String, Unit], directory: String): Seq[String] =
      keys
        .keysIteratorFrom(s"$directory/")
        .takeWhile(_.startsWith(s"$directory/"))
        .map(_.drop(directory.length + 1))
        .filter(_.nonEmpty)
        .map(_.takeWhile(_ != '/'))
        .toSeq
        .distinct
        .map(name => s"$directory/$name")
  }
}

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
    val (alone, many) = listed(ListingPrefetcher.Enabled -> "false")
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

/** Matches of patterns in paths. */
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
