package io.penstock.workloads.tpcds

import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.application.UsageError

class QueriesSuite extends AnyFunSuite {

  for (name <- Queries.all) test(s"$name is bundled and parses") {
    CatalystSqlParser.parsePlan(Queries.load(name).sql)
  }

  test("there are 104, each once") {
    assert(Queries.all.size == 104 && Queries.all.distinct.size == 104)
  }

  test("the sets hold what their names say; queries of two parts count twice") {
    assert(Queries.io54.size == 54 + 2)
    assert(Queries.nine.size == 9)
    assert(Queries.sets.values.forall(_.forall(Queries.all.contains)))
  }

  test("q14 means both its parts, and the order asked for is kept") {
    assert(Queries.named(Seq("q7", "q14", "q3", "q23b")) == Seq("q7", "q14a", "q14b", "q3", "q23b"))
  }

  test("an unknown query or set is refused by name") {
    assert(intercept[UsageError](Queries.named(Seq("q100"))).getMessage.contains("q100"))
    assert(intercept[UsageError](Queries.set("io55")).getMessage.contains("io54"))
  }
}
