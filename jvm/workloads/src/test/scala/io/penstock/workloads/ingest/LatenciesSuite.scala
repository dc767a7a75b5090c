package io.penstock.workloads.ingest

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.workloads.testing.Properties

class LatenciesSuite extends AnyFunSuite with Properties {

  test("a bucket's bound is at or above what is in it, and at most a 64th above") {
    forAll(Gen.choose(0, 40).flatMap(bits => Gen.choose(0L, (1L << bits) - 1))) { micros =>
      val bound = Latencies.highest(Latencies.bucket(micros))
      assert(bound >= micros && bound - micros <= micros / 64)
    }
  }

  test("bounds grow from bucket to bucket, and each is in its own") {
    val bounds = (0 to Latencies.bucket(Long.MaxValue)).map(Latencies.highest)
    assert(bounds.zip(bounds.tail).forall { case (one, next) => one < next })
    assert(bounds.zipWithIndex.forall { case (bound, bucket) => Latencies.bucket(bound) == bucket })
  }

  test("histograms are added bucket by bucket, and empty buckets are left out") {
    val (one, other) = (new Latencies, new Latencies)
    one.add(5000)
    other.add(5900)
    other.add(1000000000L)
    one += other
    assert(one.histogram == Seq(5L -> 2L, Latencies.highest(Latencies.bucket(1000000)) -> 1L))
  }
}
