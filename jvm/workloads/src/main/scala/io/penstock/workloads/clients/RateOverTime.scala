package io.penstock.workloads.clients

import scala.collection.mutable.ArrayBuffer

/** What was done in one step of time. */
case class Step(bytes: Long, operations: Long) {
  def +(other: Step): Step = Step(bytes + other.bytes, operations + other.operations)
}

/**
 * What was done when, in steps of `stepSeconds` since a start that all clients share. Safe for several threads.
 *
 * The bytes of an operation are spread evenly over the time it took: when a stream took them says only how large the
 * buffers in between are, and all at the end would be a rate that no second had.
 */
class RateOverTime(stepSeconds: Int) {

  private val stepNanos = stepSeconds * 1000000000L
  private val found = ArrayBuffer.empty[Step]

  /** Nanoseconds since the start. The operation counts where it ended; no byte is lost to rounding. */
  def add(fromNanos: Long, toNanos: Long, bytes: Long, operations: Long): Unit = synchronized {
    val (first, last) = ((fromNanos / stepNanos).toInt, (toNanos / stepNanos).toInt)
    while (found.size <= last) found += Step(0, 0)
    def until(step: Int): Long = {
      val part = ((step + 1) * stepNanos - fromNanos).toDouble / (toNanos - fromNanos)
      if (step == last) bytes else (bytes * part).toLong
    }
    var before = 0L
    for (step <- first to last) {
      val upTo = until(step)
      found(step) += Step(upTo - before, if (step == last) operations else 0)
      before = upTo
    }
  }

  def steps: Vector[Step] = synchronized(found.toVector)
}

object RateOverTime {

  /** All together, step by step; those that ended earlier did nothing after. */
  def merged(all: Seq[Vector[Step]]): Vector[Step] = {
    val nothing = Step(0, 0)
    all.foldLeft(Vector.empty[Step])(_.zipAll(_, nothing, nothing).map { case (one, other) => one + other })
  }
}
