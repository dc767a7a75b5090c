package io.penstock.workloads.clients

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.workloads.testing.Properties

class RateOverTimeSuite extends AnyFunSuite with Properties {

  private val Second = 1000000000L

  test("bytes are spread evenly over the time they took, operations counted at its end") {
    val rate = new RateOverTime(stepSeconds = 1)
    rate.add(Second / 2, 5 * Second / 2, bytes = 400, operations = 1)
    assert(rate.steps == Vector(Step(100, 0), Step(200, 0), Step(100, 1)))
  }

  test("steps may be longer than a second") {
    val rate = new RateOverTime(stepSeconds = 10)
    rate.add(9 * Second, 11 * Second, bytes = 10, operations = 1)
    assert(rate.steps == Vector(Step(5, 0), Step(5, 1)))
  }

  private val operation = for {
    from <- Gen.choose(0L, 20 * Second)
    took <- Gen.oneOf(Gen.const(0L), Gen.choose(0L, 7 * Second))
    bytes <- Gen.choose(0L, 1L << 40)
  } yield (from, from + took, bytes)

  test("no byte and no operation is lost or invented, and none is before its time") {
    forAll(Gen.listOf(operation), Gen.choose(1, 5)) { (operations, stepSeconds) =>
      val rate = new RateOverTime(stepSeconds)
      operations.foreach { case (from, to, bytes) => rate.add(from, to, bytes, 1) }
      assert(rate.steps.map(_.bytes).sum == operations.map(_._3).sum)
      assert(rate.steps.map(_.operations).sum == operations.size)
      assert(rate.steps.forall(_.bytes >= 0))
      for (first <- operations.map(_._1).minOption)
        assert(rate.steps.take((first / Second / stepSeconds).toInt).forall(_ == Step(0, 0)))
    }
  }

  test("several rates are added step by step, however long each is") {
    val merged = RateOverTime.merged(Seq(Vector(Step(1, 1), Step(2, 0)), Vector(Step(10, 0)), Vector.empty))
    assert(merged == Vector(Step(11, 1), Step(2, 0)))
  }
}
