package io.penstock.workloads.dfsio

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.workloads.testing.Properties

class SharesSuite extends AnyFunSuite with Properties {

  private val sizes = for {
    clients <- Gen.choose(1, 12)
    files <- Gen.choose(clients, 40)
    executors <- Gen.choose(1, 5)
  } yield (clients, files, executors)

  test("every file is written by one client and read by one, and no client has more than one file more than another") {
    forAll(sizes) { case (clients, files, executors) =>
      val readers = Vector.tabulate(clients)(client => s"${client % executors}")
      val writtenIn = Vector.tabulate(files)(file => readers(file % clients))
      val shareOf = Shares.toRead(writtenIn, readers)
      val written = (0 until clients).map(Shares.of(_, clients, files))
      val read = (0 until clients).map(client => Shares.of(shareOf(client), clients, files))
      assert(written.flatten.sorted == (0 until files) && read.flatten.sorted == (0 until files))
      assert(written.map(_.size).max - written.map(_.size).min <= 1)
    }
  }

  test("no client reads what it wrote, where there is another one") {
    forAll(sizes) { case (clients, files, executors) =>
      val readers = Vector.tabulate(clients)(client => s"${client % executors}")
      val shareOf = Shares.toRead(Vector.tabulate(files)(file => readers(file % clients)), readers)
      assert((0 until clients).forall(client => clients == 1 || shareOf(client) != client))
    }
  }

  test("with clients spread evenly over executors, none reads what its own executor wrote") {
    val readers = Vector("1", "2", "1", "2")
    val writtenIn = Vector("1", "2", "1", "2", "1", "2", "1", "2")
    assert(Shares.readWhereWritten(writtenIn, readers, Shares.toRead(writtenIn, readers)) == 0)
    assert(Shares.readWhereWritten(writtenIn, readers, identity) == 8)
  }

  test("in one executor all is read where it was written, and said to be") {
    val one = Vector.fill(3)("1")
    assert(Shares.readWhereWritten(one, one, Shares.toRead(one, one)) == 3)
  }
}
