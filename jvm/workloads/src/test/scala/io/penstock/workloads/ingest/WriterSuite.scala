package io.penstock.workloads.ingest

import java.io.{FileNotFoundException, IOException}

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

class WriterSuite extends AnyFunSuite {

  private val Second = 1000000000L

  /** Passes only when the test says so. */
  private class Stopped(var now: Long = 0) extends Clock {
    override def sleep(nanos: Long): Unit = now += math.max(0, nanos)
  }

  private def written(clock: Clock, seconds: Int, pace: Option[Pace] = None)(put: Long => Unit): Written =
    new Writer(Series(0, 0), 10, seconds * Second, pace, stepSeconds = 1, clock).run(put)

  test("it writes one object after the other until its time is over, and ends the last one") {
    val clock = new Stopped
    val put = mutable.Buffer.empty[Long]
    val done = written(clock, seconds = 2) { sequence => put += sequence; clock.now += 3 * Second / 4 }
    assert(put == Seq(0, 1, 2) && done.objects == 3 && !done.unsure)
    assert((done.startedNanos, done.endedNanos) == ((0L, 9 * Second / 4)))
    assert(done.steps.map(_.bytes).sum == 30 && done.steps.map(_.operations).sum == 3)
    assert(done.latencies.histogram.map(_._2).sum == 3)
  }

  test("before its time it waits") {
    val clock = new Stopped(-5 * Second)
    val done = written(clock, seconds = 1)(_ => clock.now += Second)
    assert(done.startedNanos == 0 && done.objects == 1)
  }

  test("with a rate it begins each object when it is due, and catches up after one that took long") {
    val clock = new Stopped
    val starts = mutable.Buffer.empty[Long]
    val pace = new Pace(writer = 1, writers = 2, objectBytes = 10, bytesPerSecond = 10)
    val done = written(clock, seconds = 12, Some(pace)) { sequence =>
      starts += clock.now / Second
      clock.now += (if (sequence == 1) 5 * Second else Second / 10)
    }
    // Every two seconds, from the first on; the third and the fourth were due while the second took its time.
    assert(starts == Seq(1, 3, 8, 8, 9, 11))
    assert(done.objects == 6 && done.endedNanos == 12 * Second)
  }

  test("a PUT that fails is tried again under the same number, and its kind is counted") {
    val clock = new Stopped
    val tried = mutable.Buffer.empty[Long]
    val done = written(clock, seconds = 3) { sequence =>
      tried += sequence
      clock.now += Second
      if (tried.size == 1) throw new IOException("503")
    }
    assert(tried == Seq(0, 0, 1) && done.objects == 2 && !done.unsure && done.gaveUp.isEmpty)
    assert(done.errors == Map("IOException" -> 1) && done.firstError.contains("java.io.IOException: 503"))
    assert(done.latencies.histogram.map(_._2).sum == 2)
  }

  test("a writer that fails too often in a row gives up and says why; its last object may be there or not") {
    val clock = new Stopped
    val done = written(clock, seconds = 1000000) { sequence =>
      if (sequence == 2) throw new FileNotFoundException("no bucket")
      clock.now += Second
    }
    assert(done.objects == 2 && done.unsure)
    assert(done.errors == Map("FileNotFoundException" -> Writer.FailuresInARow))
    assert(done.gaveUp.exists(_.contains("no bucket")))
    assert(done.endedNanos < 60 * Second)
  }

  test("time that is over while a PUT fails is no failure of the writer") {
    val clock = new Stopped
    val done = written(clock, seconds = 1) { _ =>
      clock.now += Second
      throw new IOException("503")
    }
    assert(done.objects == 0 && done.unsure && done.gaveUp.isEmpty)
  }
}
