package io.penstock.fs

import com.codahale.metrics.MetricRegistry
import org.scalatest.funsuite.AnyFunSuite

class LakeMetricsTest extends AnyFunSuite {

  test("every counter is a gauge of its name that shows what it is now, not what it was when it was registered") {
    val registry = new MetricRegistry
    LakeMetrics.register(registry)
    val shown = registry.getGauges
    assert(shown.size == Counters.All.size)
    val before = shown.get("bytes_from_disk").getValue.asInstanceOf[Long]
    Counters.BytesFromDisk.add(5)
    assert(shown.get("bytes_from_disk").getValue == before + 5)
  }
}
