package io.penstock.workloads

import org.scalatest.funsuite.AnyFunSuite

class RoundTripSuite extends AnyFunSuite {

  test("each request waits its time, and none where no time is set") {
    def seconds(interceptor: RoundTrip): Double = {
      val started = System.nanoTime()
      interceptor.beforeTransmission(null, null)
      (System.nanoTime() - started) / 1e9
    }
    assert(seconds(new RoundTrip(nanos = 30000000L)) >= 0.03)
    // On a machine that does other things meanwhile, one of some.
    assert(Iterator.fill(50)(seconds(new RoundTrip)).exists(_ < 0.03))
  }
}
