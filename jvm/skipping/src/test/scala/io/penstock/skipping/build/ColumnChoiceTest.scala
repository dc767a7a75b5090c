package io.penstock.skipping.build

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.types._
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.build.ColumnChoice.{Sampled, SampledQuestions}
import io.penstock.skipping.index.Kind

class ColumnChoiceTest extends AnyFunSuite {

  private val table =
    IndexedTable("t", new Path("/t"), StructType.fromDDL("day INT, item INT, code STRING, price DOUBLE"))
  private val possible = ColumnChoice.possible(table)
  private val (day, item, code) = (possible(0), possible(1), possible(2))

  private def choose(sampled: Sampled*): ColumnChoice.Choice =
    ColumnChoice.automatic(table, 50, sampled, kinds = None, worth = 0.5)

  test("a clustered column is worth its bounds, one of few values in each file their lists, a scattered one nothing") {
    val choice = choose(Sampled(day, 0.02, 0.02), Sampled(item, 0.97, 0.9), Sampled(code, 0.8, 0.1))
    assert(
      choice.plan.map(planned => planned.column -> planned.kinds) == Seq(
        day -> Set(Kind.MinMax),
        code -> Set(Kind.MinMax, Kind.Values)
      )
    )
    assert(choice.leftOut.map(_.name) == Seq("item", "price"))
  }

  test("each choice says what was seen") {
    val choice = choose(Sampled(day, 0.02, 0.02), Sampled(item, 0.97, 0.9), Sampled(code, 0.8, 0.1))
    assert(choice.plan.head.why == "clustered: of 50 sampled files, 2 % may hold a given value")
    assert(choice.leftOut.head.why.startsWith("scattered"))
    assert(choice.leftOut.last.why.contains("DOUBLE"))
  }

  test("a scattered column is covered where what queries asked of it is in few files, and the reason says how few") {
    val choice = choose(
      Sampled(day, 0.97, 0.97, Some(SampledQuestions(3, 0.1, 0.1))),
      Sampled(item, 0.97, 0.9, Some(SampledQuestions(4, 0.8, 0.2))),
      Sampled(code, 0.97, 0.9, Some(SampledQuestions(5, 0.8, 0.7)))
    )
    assert(
      choice.plan.map(planned => (planned.column, planned.kinds, planned.asked)) == Seq(
        (day, Set(Kind.MinMax), Some(0.1)),
        (item, Set(Kind.MinMax, Kind.Values), Some(0.2))
      )
    )
    assert(choice.leftOut.map(_.name) == Seq("code", "price"))
    assert(
      choice.plan.head.why ==
        "queried: of 50 sampled files, 10 % may match 3 recorded scans, 97 % may hold a given value"
    )
  }

  test("what queries asked of a clustered column is no reason to leave it out") {
    assert(choose(Sampled(day, 0.02, 0.02, Some(SampledQuestions(9, 1, 1)))).plan.map(_.column) == Seq(day))
  }

  test("too few files tell nothing: all columns that can be are covered") {
    val choice = ColumnChoice.automatic(table, 1, Seq(Sampled(day, 1, 1)), kinds = None, worth = 0.5)
    assert(choice.plan.map(_.column) == Seq(day))
  }

  test("columns are asked for in any case, once each, and called as the table calls them") {
    assert(ColumnChoice.requested(table, Seq("DAY", "day"), Set(Kind.MinMax)).plan.map(_.column) == Seq(day))
  }
}
