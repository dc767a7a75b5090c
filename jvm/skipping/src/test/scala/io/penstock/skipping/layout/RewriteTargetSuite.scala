package io.penstock.skipping.layout

import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.layout.RewriteTarget._

class RewriteTargetSuite extends AnyFunSuite {

  private def choose(cataloged: Boolean, alike: Boolean, atOnce: Boolean, into: Option[Seq[String]] = None) =
    RewriteTarget.choose(into, cataloged, alike, atOnce)

  test("a table is never replaced in place where that deletes it before it was read") {
    for (cataloged <- Seq(true, false); alike <- Seq(true, false))
      assert(choose(cataloged, alike, atOnce = false) != Right(InPlace))
    assert(choose(cataloged = false, alike = true, atOnce = false).isLeft)
  }

  test("partitions that the catalog would not know of are not written below its table") {
    assert(choose(cataloged = true, alike = false, atOnce = true) == Right(Renamed))
    assert(choose(cataloged = true, alike = true, atOnce = true) == Right(InPlace))
    assert(choose(cataloged = false, alike = false, atOnce = true) == Right(InPlace))
  }

  test("a table of its own is always possible") {
    for (cataloged <- Seq(true, false); alike <- Seq(true, false); atOnce <- Seq(true, false))
      assert(choose(cataloged, alike, atOnce, into = Some(Seq("b"))) == Right(Beside(Seq("b"))))
  }
}
