package io.penstock.skipping.filter

import org.scalacheck.Gen

import io.penstock.skipping.filter.FileFilter._

/** Filters over two columns, `n` of numbers and `s` of bytes, and what they say of a row. */
object FilterModel {

  /** A value of each column; either may be null. */
  type Row = (Option[Long], Option[Array[Byte]])

  val row: Gen[Row] = Gen.zip(Gen.option(Gen.oneOf(KeysSuite.numbers)), Gen.option(Gen.oneOf(KeysSuite.strings)))

  val numberLeaf: Gen[Among] = KeysSuite.numberKeys.map(Among("n", _))
  val byteLeaf: Gen[Among] = KeysSuite.byteKeys.map(Among("s", _))

  /** What may be asked of one column. */
  val questions: Gen[FileFilter] =
    Gen.oneOf(numberLeaf, byteLeaf, Gen.oneOf(IsNull("n"), IsNotNull("n"), IsNull("s"), IsNotNull("s")))

  def filters: Gen[FileFilter] = Gen.recursive[FileFilter] { inner =>
    Gen.frequency(
      6 -> questions,
      1 -> Gen.oneOf(Anything, Nothing),
      2 -> Gen.choose(0, 3).flatMap(Gen.listOfN(_, inner)).map(FileFilter.and),
      2 -> Gen.choose(0, 3).flatMap(Gen.listOfN(_, inner)).map(FileFilter.or)
    )
  }

  def matches(filter: FileFilter, row: Row): Boolean = filter match {
    case Anything => true
    case Nothing => false
    case Among("n", keys) => row._1.exists(KeysSuite.contains(keys, _))
    case Among(_, keys) => row._2.exists(KeysSuite.contains(keys, _))
    case IsNull("n") => row._1.isEmpty
    case IsNull(_) => row._2.isEmpty
    case IsNotNull("n") => row._1.isDefined
    case IsNotNull(_) => row._2.isDefined
    case And(parts) => parts.forall(matches(_, row))
    case Or(parts) => parts.exists(matches(_, row))
  }
}
