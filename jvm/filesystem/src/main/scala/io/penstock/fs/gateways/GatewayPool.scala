package io.penstock.fs.gateways

import java.util.concurrent.TimeUnit.{MILLISECONDS, SECONDS}

import scala.collection.immutable.TreeMap

/** How an attempt failed, as far as it says something about its gateway. */
sealed private[gateways] trait Failure

private[gateways] object Failure {

  /** Refused, reset, unknown, no route: nobody is there. */
  case object Unreachable extends Failure

  /** An error of the server's, a time-out, half a response: one may be bad luck. */
  case object Broken extends Failure

  /** It said so itself (503, 429); with the time it asked for, in nanoseconds. */
  final case class Overloaded(retryAfter: Option[Long]) extends Failure
}

/**
 * One request on its way.
 *
 * @param prompt
 *   whether the store owes its answer at once: not while it is still being sent a body
 */
final private[gateways] case class Attempt(gateway: Gateway, id: Long, startedAt: Long, prompt: Boolean)

/**
 * Which gateway the next attempt goes to, decided from how the earlier ones fared: plain data, no I/O and no clock.
 * Moments are nanoseconds of any one monotonic clock.
 *
 * The fewest requests in flight win, and among equals whoever was not chosen for the longest time: a slow gateway keeps
 * its requests longer, so it is given fewer, without anybody having measured anything. A gateway is ejected when nobody
 * is there, after [[GatewayPool.Patience]] failures in a row, when it answers several times later than the others, or
 * when it owes an answer for long. An ejected one is asked again only after a probe of its own succeeded; an overloaded
 * one is left alone for a moment. The last one in service is never ejected, and there always is a choice.
 */
final private[gateways] case class GatewayPool(members: Vector[Member], attempts: Long = 0) {

  import GatewayPool._

  /** An attempt, at another gateway than those in `tried` if any other is in service. */
  def start(now: Long, prompt: Boolean, tried: Set[Gateway] = Set.empty): (GatewayPool, Attempt) = {
    val pool = withoutLaggards(now)
    val chosen = pool.members.minBy { member =>
      (
        member.ejection.fold(Long.MinValue)(_.until),
        tried.contains(member.gateway),
        member.overloadedUntil > now,
        member.inFlight,
        member.lastChosen
      )
    }
    val attempt = Attempt(chosen.gateway, attempts + 1, now, prompt)
    val started = pool.copy(attempts = attempt.id).changed(chosen.gateway)(_.started(attempt))
    (started, attempt)
  }

  /** The answer has begun, and it is no failure. */
  def answered(attempt: Attempt, now: Long): GatewayPool = changed(attempt)(_.answered(attempt, now))

  /** The last of its bytes is here, or no more of them are wanted. */
  def finished(attempt: Attempt, bytes: Long): GatewayPool = changed(attempt)(_.ended(attempt, bytes))

  def failed(attempt: Attempt, now: Long, failure: Failure): GatewayPool = {
    val pool = changed(attempt)(_.ended(attempt, 0))
    pool.member(attempt.gateway).filter(_.knows(attempt)) match {
      // What was under way when its gateway was ejected tells nothing new.
      case None => pool
      case Some(member) if member.ejection.nonEmpty || member.returnedAt.exists(_ > attempt.startedAt) => pool
      case Some(member) =>
        failure match {
          case Failure.Overloaded(retryAfter) => pool.changed(attempt.gateway)(_.overloaded(now, retryAfter))
          case Failure.Unreachable => pool.ejected(member, now)
          // A time-out as long as that is no bad luck.
          case Failure.Broken if attempt.prompt && now - attempt.startedAt > Overdue => pool.ejected(member, now)
          case Failure.Broken if member.failures + 1 >= Patience => pool.ejected(member, now)
          case Failure.Broken => pool.changed(attempt.gateway)(m => m.copy(failures = m.failures + 1))
        }
    }
  }

  /** Ejected ones whose time is over, to be probed now; each is given once. */
  def due(now: Long): (GatewayPool, Vector[Gateway]) = {
    val due = members.filter(_.ejection.exists(ejection => !ejection.probing && ejection.until <= now)).map(_.gateway)
    (due.foldLeft(this)((pool, gateway) => pool.changed(gateway)(_.probing)), due)
  }

  def probed(gateway: Gateway, now: Long, alive: Boolean): GatewayPool =
    changed(gateway)(member => if (alive) member.returned(now) else member.ejectedAgain(now))

  /** The addresses have changed: who stays keeps its history. One that was away and is back begins anew. */
  def withGateways(gateways: Seq[Gateway]): GatewayPool = copy(members =
    gateways.iterator.map(gateway => member(gateway).getOrElse(Member(gateway, joinedAfter = attempts))).toVector
  )

  def ejected: Set[Gateway] = members.iterator.filter(_.ejection.nonEmpty).map(_.gateway).toSet

  private def member(gateway: Gateway): Option[Member] = members.find(_.gateway == gateway)

  /** Where the gateway was away since, its count of requests in flight is without this one. */
  private def changed(attempt: Attempt)(change: Member => Member): GatewayPool =
    changed(attempt.gateway)(member => if (member.knows(attempt)) change(member) else member)

  private def changed(gateway: Gateway)(change: Member => Member): GatewayPool =
    copy(members = members.map(member => if (member.gateway == gateway) change(member) else member))

  private def ejected(failing: Member, now: Long): GatewayPool =
    if (members.exists(other => other.gateway != failing.gateway && other.ejection.isEmpty))
      changed(failing.gateway)(_.ejected(now))
    else {
      // The last one fails too: whether another has come back is worth knowing now, not when its time is over.
      copy(members =
        members.map(member => if (member.gateway == failing.gateway) member.failedOnce else member.dueNow(now))
      )
    }

  private def withoutLaggards(now: Long): GatewayPool = {
    val inService = members.filter(_.ejection.isEmpty)
    inService
      .filter(member => lags(member, inService.filter(_ ne member), now))
      .foldLeft(this)((pool, laggard) =>
        if (pool.members.count(_.ejection.isEmpty) > 1) pool.changed(laggard.gateway)(_.ejected(now)) else pool
      )
  }

  private def lags(member: Member, others: Vector[Member], now: Long): Boolean =
    (member.owesAnAnswer(now) && others.exists(!_.owesAnAnswer(now))) ||
      (member.known && {
        val known = others.filter(_.known).map(_.firstByte).sorted
        known.nonEmpty && member.firstByte > math.max(SlowFloor, SlowFactor * known((known.size - 1) / 2))
      })
}

private[gateways] object GatewayPool {

  /** Failures in a row before a gateway that does answer is ejected. */
  val Patience = 3

  val FirstEjection: Long = SECONDS.toNanos(1)
  val LongestEjection: Long = SECONDS.toNanos(30)

  /** In service for so long, a gateway starts anew with the first ejection's length. */
  val Forgiven: Long = SECONDS.toNanos(60)

  /** Slow is a mean time to the first byte above both: so long, and so many times the median of the others. */
  val SlowFloor: Double = MILLISECONDS.toNanos(200).toDouble
  val SlowFactor = 4.0

  /** Answers before a mean counts, and the weight of the latest in it. */
  val Samples = 8
  val Weight = 0.2

  /** An answer that is due at once and has not begun after so long. */
  val Overdue: Long = SECONDS.toNanos(5)

  /** An overloaded gateway that does not say how long is left alone for this, doubling from one answer to the next. */
  val FirstPause: Long = MILLISECONDS.toNanos(100)
  val LongestPause: Long = SECONDS.toNanos(5)

  /**
   * @param seed
   *   turns the order, so that many processes that start at once do not all begin with the same gateway
   */
  def apply(gateways: Seq[Gateway], seed: Int): GatewayPool = {
    val (front, back) = gateways.toVector.splitAt(Math.floorMod(seed, gateways.size))
    new GatewayPool((back ++ front).map(Member(_)))
  }
}

/** Out of service from `since`; worth a probe from `until` on. `length` doubles. */
final private[gateways] case class Ejection(since: Long, until: Long, length: Long, probing: Boolean = false)

/**
 * What is known of one gateway.
 *
 * @param joinedAfter
 *   the latest attempt of the pool when it came
 * @param firstByte
 *   the mean time to the answer's first byte
 */
final private[gateways] case class Member(
    gateway: Gateway,
    joinedAfter: Long = 0,
    inFlight: Int = 0,
    lastChosen: Long = 0,
    unanswered: TreeMap[Long, Long] = TreeMap.empty,
    failures: Int = 0,
    firstByte: Double = 0,
    samples: Int = 0,
    overloads: Int = 0,
    overloadedUntil: Long = Long.MinValue,
    ejection: Option[Ejection] = None,
    lastEjection: Long = 0,
    returnedAt: Option[Long] = None,
    requests: Long = 0,
    bytes: Long = 0
) {
  import GatewayPool._

  def known: Boolean = samples >= Samples

  def knows(attempt: Attempt): Boolean = attempt.id > joinedAfter

  def owesAnAnswer(now: Long): Boolean = unanswered.headOption.exists { case (_, since) => now - since > Overdue }

  def started(attempt: Attempt): Member = copy(
    inFlight = inFlight + 1,
    lastChosen = attempt.id,
    requests = requests + 1,
    unanswered = if (attempt.prompt) unanswered + (attempt.id -> attempt.startedAt) else unanswered
  )

  def answered(attempt: Attempt, now: Long): Member = {
    val well = copy(unanswered = unanswered - attempt.id, failures = 0, overloads = 0)
    if (!attempt.prompt) well
    else {
      val took = (now - attempt.startedAt).toDouble
      val mean = if (samples == 0) took else firstByte + Weight * (took - firstByte)
      well.copy(firstByte = mean, samples = samples + 1)
    }
  }

  def ended(attempt: Attempt, more: Long): Member =
    copy(inFlight = inFlight - 1, unanswered = unanswered - attempt.id, bytes = bytes + more)

  def failedOnce: Member = copy(failures = failures + 1)

  def overloaded(now: Long, retryAfter: Option[Long]): Member = {
    val doubled = math.min(LongestPause, FirstPause << math.min(overloads, 10))
    val pause = retryAfter.fold(doubled)(math.min(LongestEjection, _))
    copy(overloads = overloads + 1, overloadedUntil = now + pause)
  }

  def ejected(now: Long): Member = {
    val again = lastEjection > 0 && returnedAt.exists(now - _ < Forgiven)
    val length = if (again) math.min(LongestEjection, 2 * lastEjection) else FirstEjection
    copy(ejection = Some(Ejection(now, now + length, length)))
  }

  /** Its probe failed. */
  def ejectedAgain(now: Long): Member = copy(ejection = ejection.map { ejection =>
    val length = math.min(LongestEjection, 2 * ejection.length)
    ejection.copy(until = now + length, length = length, probing = false)
  })

  def dueNow(now: Long): Member =
    copy(ejection = ejection.map(ejection => ejection.copy(until = math.min(ejection.until, now))))

  def probing: Member = copy(ejection = ejection.map(_.copy(probing = true)))

  def returned(now: Long): Member = ejection.fold(this) { ended =>
    // Its past speed was that of an ill gateway; what it still owes from then is no reason to eject it again.
    copy(
      ejection = None,
      lastEjection = ended.length,
      returnedAt = Some(now),
      failures = 0,
      overloads = 0,
      samples = 0,
      unanswered = TreeMap.empty
    )
  }
}
