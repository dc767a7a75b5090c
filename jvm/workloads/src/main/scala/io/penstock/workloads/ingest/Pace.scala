package io.penstock.workloads.ingest

/**
 * When a writer may begin each object, so that all writers together write at a set rate. They begin evenly spread over
 * the time of one object, not all at once. A writer that is behind catches up: the mean is what was asked for, wherever
 * the store can bear it.
 */
class Pace(writer: Int, writers: Int, objectBytes: Long, bytesPerSecond: Long) {

  private val everyNanos = objectBytes.toDouble * writers / bytesPerSecond * 1e9

  /** Nanoseconds since the start. */
  def due(sequence: Long): Long = (everyNanos * (sequence + writer.toDouble / writers)).toLong
}
