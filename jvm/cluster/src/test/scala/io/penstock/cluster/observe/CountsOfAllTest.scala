package io.penstock.cluster.observe

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.metrics.Counters
import io.penstock.skipping.model.SkippingCounters

class CountsOfAllTest extends AnyFunSuite {

  test("a reading that is overtaken by a later one of the same process changes nothing") {
    val early = Map("a" -> 1L, "b" -> 7L)
    val late = Map("a" -> 4L, "b" -> 7L, "c" -> 2L)
    assert(CountsOfAll.later(late, early) == late)
    assert(CountsOfAll.later(early, late) == late)
  }

  test("processes are summed by name, also where one has never counted what another has") {
    assert(CountsOfAll.sum(Map("a" -> 1L), Map("a" -> 4L, "c" -> 2L)) == Map("a" -> 5L, "c" -> 2L))
  }

  test("the summary has every counter once") {
    val counts = Counters.All.zipWithIndex.map { case (counter, index) => counter.name -> (1000L + index) }.toMap
    val summary = new ObjectMapper().readTree(Reports.summary(ApplicationState(), counts, Nil, nowMs = 0))
    val found = Seq(summary.get("s3_requests"), summary.get("s3_request_us"), summary.get("lake"))
      .flatMap(_.elements.asScala.map(_.asLong))
    assert((found :+ summary.get("s3_retries").asLong).sorted == counts.values.toSeq.sorted)
    assert(summary.get("s3_requests").get("LIST").asLong == counts("requests_list"))
    assert(summary.get("lake").get("bytes_from_store").asLong == counts("bytes_from_store"))
  }

  test("the summary has the sums of skipping, also of a driver that skipped nothing") {
    def skippingOf(skipping: Seq[(String, Long)]) =
      new ObjectMapper().readTree(Reports.summary(ApplicationState(), Map.empty, skipping, nowMs = 0)).get("skipping")
    assert(skippingOf(SkippingCounters.now()).properties.asScala.forall(_.getValue.asLong == 0))
    SkippingCounters.scanned(files = 10, filesSkipped = 7, bytes = 100, bytesSkipped = 60, selectNs = 5000)
    SkippingCounters.scanned(files = 3, filesSkipped = 0, bytes = 30, bytesSkipped = 0, selectNs = 0)
    val expected = Seq("scans" -> 2, "files" -> 13, "files_skipped" -> 7, "bytes" -> 130, "bytes_skipped" -> 60)
    for ((name, value) <- expected) assert(skippingOf(SkippingCounters.now()).get(name).asLong == value, name)
  }
}
