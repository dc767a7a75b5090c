package io.penstock.skipping.filter

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.testing.Properties

class FileFilterSuite extends AnyFunSuite with Properties {

  import FilterModel._

  test("what filters are simplified to says of every row what they said") {
    forAll(Gen.choose(0, 4).flatMap(Gen.listOfN(_, filters)), row) { (parts, row) =>
      assert(matches(FileFilter.and(parts), row) == parts.forall(matches(_, row)))
      assert(matches(FileFilter.or(parts), row) == parts.exists(matches(_, row)))
    }
  }

  test("bounds from two sides are asked for as one interval") {
    val both = FileFilter.and(
      Seq(
        FileFilter.Among("n", Keys.Integral.interval(3, Long.MaxValue)),
        FileFilter.IsNotNull("s"),
        FileFilter.Among("n", Keys.Integral.interval(Long.MinValue, 7))
      )
    )
    both match {
      case FileFilter.And(Seq(FileFilter.IsNotNull("s"), FileFilter.Among("n", keys: Keys.Integral))) =>
        assert(keys.lows.toSeq == Seq(3) && keys.highs.toSeq == Seq(7))
      case other => fail(other.toString)
    }
  }
}
