package io.penstock.workloads.ingest

import java.io.IOException

import scala.collection.mutable

import io.penstock.workloads.clients.{RateOverTime, Step}

/** Time since the ingest began, in nanoseconds; negative before it. */
trait Clock {
  def now: Long
  def sleep(nanos: Long): Unit
}

/**
 * The work of one writer.
 *
 * @param objects
 *   the number of stored objects, which are those with smaller numbers
 * @param unsure
 *   true where a PUT of the next number failed, so that its object may be there or not
 * @param errors
 *   PUTs that failed after the file system's own retries, by kind
 * @param gaveUp
 *   the reason why it stopped early, if it did
 */
case class Written(
    series: Series,
    objects: Long,
    unsure: Boolean,
    startedNanos: Long,
    endedNanos: Long,
    latencies: Latencies,
    steps: Vector[Step],
    errors: Map[String, Long],
    firstError: Option[String],
    gaveUp: Option[String]
)

/**
 * Puts one object after the other until its time is over. A PUT that fails is tried again, the same bytes under the
 * same name, so it does not matter whether it was stored; a writer that fails too often in a row gives up.
 */
class Writer(series: Series, objectBytes: Long, until: Long, pace: Option[Pace], stepSeconds: Int, clock: Clock) {
  import Writer._

  def run(put: Long => Unit): Written = {
    clock.sleep(-clock.now)
    val started = clock.now
    val latencies = new Latencies
    val rate = new RateOverTime(stepSeconds)
    val failures = new Failures
    var sequence = 0L
    // One that began again later keeps its pace from then on: what was missed is not made up for.
    def waitForTurn(): Unit =
      pace.foreach(pace => clock.sleep(math.min(started + pace.due(sequence), until) - clock.now))

    waitForTurn()
    while (failures.inARow < FailuresInARow && clock.now < until) {
      val from = clock.now
      try {
        put(sequence)
        latencies.add(clock.now - from)
        rate.add(from, clock.now, objectBytes, operations = 1)
        failures.inARow = 0
        sequence += 1
        waitForTurn()
      } catch {
        case error: IOException =>
          failures.add(error)
          clock.sleep(math.min(failures.pauseNanos, until - clock.now))
      }
    }
    Written(
      series,
      sequence,
      unsure = failures.inARow > 0,
      started,
      clock.now,
      latencies,
      rate.steps,
      failures.byKind.toMap,
      failures.first,
      gaveUp = Option.when(failures.inARow == FailuresInARow)(s"$FailuresInARow PUTs in a row failed: ${failures.last}")
    )
  }
}

object Writer {
  val FailuresInARow = 10
}

private class Failures {
  val byKind = mutable.LinkedHashMap.empty[String, Long]
  var first = Option.empty[String]
  var last = ""
  var inARow = 0

  def add(error: IOException): Unit = {
    val kind = error.getClass.getSimpleName
    byKind(kind) = byKind.getOrElse(kind, 0L) + 1
    last = error.toString
    first = first.orElse(Some(last))
    inARow += 1
  }

  /** Doubling, from a tenth of a second to ten. */
  def pauseNanos: Long = math.min(50L << inARow, 10000L) * 1000000
}

/**
 * How many requests took how long, to 1/64 of the time. The buckets are the same for all, so histograms can be added.
 * Below 128 µs they are of one microsecond; above, each power of two is divided into 64, as HdrHistogram does.
 */
class Latencies extends Serializable {
  import Latencies._

  private val counts = new Array[Long](Buckets)

  def add(nanos: Long): Unit = counts(bucket(nanos / 1000)) += 1

  def +=(other: Latencies): Unit = for (index <- counts.indices) counts(index) += other.counts(index)

  /** Upper bound in microseconds and number of those at or below it and above the bound before; no empty ones. */
  def histogram: Seq[(Long, Long)] =
    counts.indices.collect { case index if counts(index) > 0 => highest(index) -> counts(index) }
}

private[ingest] object Latencies {
  private val SubBits = 6
  private val Sub = 1 << SubBits
  private val Longest = (1L << 40) - 1 // twelve days
  private val Buckets = bucket(Longest) + 1

  def bucket(micros: Long): Int = {
    val value = math.min(math.max(micros, 0), Longest)
    val shift = math.max(0, java.lang.Long.SIZE - java.lang.Long.numberOfLeadingZeros(value) - SubBits - 1)
    shift * Sub + (value >>> shift).toInt
  }

  /** The largest number of microseconds in the bucket. */
  def highest(bucket: Int): Long =
    if (bucket < 2 * Sub) bucket.toLong
    else {
      val shift = bucket / Sub - 1
      ((bucket % Sub + Sub + 1L) << shift) - 1
    }
}
