package io.penstock.fs.list

import scala.collection.immutable.TreeMap

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

class ListAheadTest extends AnyFunSuite with ScalaCheckPropertyChecks {
  import ListAheadTest._

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

  test("what one thread learnt ahead is not told to another") {
    val store = new ModelStore(days(20))
    (0 to 2).foreach(day => store.list(f"table/day=$day%04d"))
    store.write("table/day=0003/late")
    var heard = Seq.empty[String]
    val other = new Thread(() => heard = store.list("table/day=0003"))
    other.start()
    other.join()
    assert(heard.size == 2)
  }

  test("each answer is told once: who lists a partition again sees it as it is") {
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

object ListAheadTest {

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

  /** A store in memory whose clock is told to go on, and which remembers what it held when. */
  private class ModelStore(keys: Seq[String]) extends ListAhead.Pages {

    private var now = 1L
    private var held = TreeMap.from(keys.map(_ -> ()))
    private var past = Seq(now -> held)

    var alone = 0
    var pages = Seq.empty[Int]

    val ahead = new ListAhead(this, () => now)
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
