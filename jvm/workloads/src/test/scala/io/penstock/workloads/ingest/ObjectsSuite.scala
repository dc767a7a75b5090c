package io.penstock.workloads.ingest

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.workloads.testing.Properties

class ObjectsSuite extends AnyFunSuite with Properties {

  private val series = for {
    writer <- Gen.choose(0, 200000)
    attempt <- Gen.choose(0, 120)
  } yield Series(writer, attempt)

  test("a directory's name says whose it is, and no other name does") {
    forAll(series)(one => assert(Series.ofDirectory(one.directory).contains(one)))
    assert(Seq("writer-1-0", "writer-00001", "writer-000001-00", "_temporary").flatMap(Series.ofDirectory).isEmpty)
  }

  test("no two objects have one name or one content") {
    val all =
      for (writer <- 0 to 2; attempt <- 0 to 2; sequence <- Seq(0L, 1L, 99L, 100L, 10000000L))
        yield (Series(writer, attempt), sequence)
    assert(all.map { case (one, sequence) => one.name(sequence) }.distinct.size == all.size)
    assert(all.map { case (one, sequence) => one.content(sequence) }.distinct.size == all.size)
  }

  test("the folders of a series require each object once, in its own folder, and allow what may be there") {
    forAll(series, Gen.choose(0L, 1000L), Gen.choose(0L, 1L)) { (one, written, unsure) =>
      val folders = Folder.all(one, written, written + unsure, found = Set(written / Series.InFolder))
      assert(folders.flatMap(_.required) == (0L until written))
      assert(folders.flatMap(_.optional) == (written until written + unsure))
      assert(folders.forall(folder => folder.required.forall(one.name(_).startsWith(s"${folder.path}/"))))
    }
  }

  test("a folder that should not be there requires and allows nothing") {
    val folders = Folder.all(Series(0, 0), written = 5, allowed = 5, found = Set(0, 7))
    assert(folders.map(_.index) == Seq(0, 7))
    assert(folders.last.required.isEmpty && folders.last.optional.isEmpty)
  }

  test("of a lost attempt all folders but the last must be full") {
    val folders = Folder.ofLost(Series(1, 0), found = Set(0, 2))
    assert(folders.map(_.required.size) == Seq(100, 100, 0))
    assert(folders.last.optional == (200L until 300L))
    assert(Folder.ofLost(Series(1, 0), Set.empty).isEmpty)
  }
}
