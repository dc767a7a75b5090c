package io.penstock.fs.testing

import java.util.concurrent.TimeUnit.{MILLISECONDS, SECONDS}
import java.util.concurrent.locks.LockSupport

/** Lets bytes pass at a rate, whoever's they are; what a moment of idleness left unused may be caught up on. */
final private[testing] class TokenBucket(bytesPerSecond: Long) {
  require(bytesPerSecond > 0, s"$bytesPerSecond bytes per second")

  /** When the last of the bytes granted so far will have passed. */
  private var passed = Long.MinValue

  /** Blocks until the bytes may pass. */
  def take(bytes: Int): Unit = {
    val until = grant(bytes, System.nanoTime())
    var left = until - System.nanoTime()
    while (left > 0) {
      LockSupport.parkNanos(left)
      left = until - System.nanoTime()
    }
  }

  /** When, in the caller's nanoseconds, the bytes will have passed. */
  private[testing] def grant(bytes: Int, now: Long): Long = synchronized {
    val earliest = now - TokenBucket.Burst
    passed = (if (passed == Long.MinValue) now else math.max(passed, earliest)) +
      math.ceil(bytes.toDouble * SECONDS.toNanos(1) / bytesPerSecond).toLong
    passed
  }
}

private object TokenBucket {

  /** A sleep is late by a fraction of a millisecond: without catching up, a fast gateway would be slower than asked. */
  val Burst: Long = MILLISECONDS.toNanos(10)
}
