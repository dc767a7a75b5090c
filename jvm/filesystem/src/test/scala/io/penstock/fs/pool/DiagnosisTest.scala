package io.penstock.fs.pool

import org.scalatest.funsuite.AnyFunSuite

class DiagnosisTest extends AnyFunSuite {

  private def held(path: String, sinceNs: Long, place: String*): OpenResponses.Held =
    new OpenResponses.Held(path, sinceNs, "worker-1", place)

  test("streams that hold the pool are named, oldest first, with how long, who and where") {
    val text = Diagnosis.of(
      maximum = 2,
      open = Seq(held("s3a://b/young", 4000000000L), held("s3a://b/old", 1000000000L, "app.Job.run(Job.scala:7)")),
      calls = 1,
      nowNs = 6000000000L
    )
    val lines = text.split("\n")
    assert(lines(0).contains("the pool has 2 (fs.s3a.connection.maximum), 2 are held by open streams, and 1 requests"))
    assert(lines(2) == "  s3a://b/old for 5.0 s by thread “worker-1” at app.Job.run(Job.scala:7)")
    assert(lines(3) == "  s3a://b/young for 2.0 s by thread “worker-1”")
    assert(lines.last.contains("Close each stream after use") && lines.last.contains("to 6 or more"))
  }

  test("a thousand open streams make a message of a dozen lines") {
    val text = Diagnosis.of(1000, (1 to 1000).map(i => held(s"s3a://b/$i", i)), 0, 2000)
    assert(text.split("\n").length == 14)
    assert(text.contains("… and 990 more"))
  }

  test("where streams are not the reason, closing them is not the advice") {
    val text = Diagnosis.of(8, Seq(held("s3a://b/k", 0)), calls = 20, nowNs = 1)
    assert(!text.contains("Close each stream"))
    assert(text.contains("to 42 or more, or lower fs.s3a.threads.max"))
  }

  test("the oldest is the oldest also when the clock has wrapped round") {
    val open = Seq(held("s3a://b/after", Long.MinValue + 5), held("s3a://b/before", Long.MaxValue - 5))
    val lines = Diagnosis.of(2, open, 0, Long.MinValue + 10).split("\n")
    assert(lines(2).contains("/before") && lines(3).contains("/after"))
  }
}
