package io.penstock.fs.testing

import java.util.concurrent.CountDownLatch

/** What goes wrong with one request at a [[FaultyGateway]]. */
sealed trait Fault

object Fault {

  /** The response begins this much later. */
  final case class Delay(milliseconds: Long) extends Fault

  /** The response begins once the latch is at zero. */
  final case class Held(until: CountDownLatch) extends Fault

  /** The response's body comes at this rate. */
  final case class Slow(bytesPerSecond: Long) extends Fault

  /** The connection ends after so many bytes of the response's body: with a FIN, or with an RST. */
  final case class CutAfter(bytes: Long, reset: Boolean = false) extends Fault

  /** The lowest bit of that byte of the response's body is wrong. */
  final case class Flip(at: Long) extends Fault

  /** The connection is reset after so many bytes of the request's body have been passed on. */
  final case class CutUploadAfter(bytes: Long) extends Fault

  /** The connection is reset; the store never sees the request. */
  case object Reset extends Fault

  /** The store does what was asked, but the connection is reset instead of saying so. */
  case object LoseResponse extends Fault

  /** The gateway answers by itself; the store never sees the request. */
  final case class Answer(status: Int, code: String, headers: Map[String, String] = Map.empty) extends Fault

  /** No answer, ever, on a connection that stays open; the store never sees the request. */
  case object BlackHole extends Fault

  /** What an overloaded S3 store says. */
  def slowDown(retryAfterSeconds: Option[Int] = None): Answer =
    Answer(503, "SlowDown", retryAfterSeconds.map(seconds => "Retry-After" -> seconds.toString).toMap)

  val InternalError: Answer = Answer(500, "InternalError")
}
