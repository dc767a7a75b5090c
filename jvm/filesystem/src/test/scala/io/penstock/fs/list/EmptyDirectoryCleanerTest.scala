package io.penstock.fs.list

import scala.collection.mutable

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.testing.Properties

/** Against a store that keeps the directories of its objects, whatever becomes of the objects. */
class EmptyDirectoryCleanerTest extends AnyFunSuite with Properties {

  final private class Keeping extends EmptyDirectoryCleaner.Store {
    val objects = mutable.SortedSet.empty[String]
    val directories = mutable.SortedSet.empty[String]
    var requests = 0

    def put(key: String): Unit = {
      objects += key
      directories ++= above(key)
    }

    override def directories(directory: String): Vector[String] = {
      requests += 1
      directories.iterator
        .filter(d => d != directory && d.startsWith(directory) && above(d).contains(directory))
        .filter { d =>
          d.count(_ == '/') == directory.count(_ == '/') + 1
        }
        .toVector
    }

    override def delete(gone: Vector[String]): Unit = {
      if (gone.nonEmpty) requests += 1
      for (d <- gone if !(objects ++ directories).exists(k => k != d && k.startsWith(d))) directories -= d
    }
  }

  private def above(key: String): Seq[String] =
    key.stripSuffix("/").split("/").inits.toSeq.tail.filter(_.nonEmpty).map(_.mkString("", "/", "/"))

  private val key: Gen[String] =
    for {
      depth <- Gen.choose(0, 3)
      names <- Gen.listOfN(depth, Gen.oneOf("a", "b", "day=1"))
    } yield ("table" +: names :+ "part").mkString("/")

  test("what no object is in is gone, and what one is in stays") {
    forAll(Gen.listOf(key), Gen.listOf(key)) { (deleted, since) =>
      val store = new Keeping
      store.put("other/part")
      deleted.foreach(store.put)
      store.objects --= deleted
      since.foreach(store.put)
      new EmptyDirectoryCleaner(store).remove("table/")
      assert(store.directories.toSet == (store.objects.flatMap(above).toSet))
    }
  }

  test("partitions cost no requests of their own") {
    val store = new Keeping
    for (day <- 0 until 500) store.put(s"table/day=$day/part")
    store.objects.clear()
    new EmptyDirectoryCleaner(store).remove("table/")
    assert(store.directories.isEmpty)
    assert(store.requests == 4)
  }
}
