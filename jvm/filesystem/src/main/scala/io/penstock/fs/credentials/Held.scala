package io.penstock.fs.credentials

import software.amazon.awssdk.auth.credentials.AwsCredentials

/**
 * What was last read from the file.
 *
 * @param expiresAt
 *   in milliseconds since the epoch; none: they do not end
 * @param stamp
 *   tells this content of the file from any other
 */
final private[credentials] case class Held(credentials: AwsCredentials, expiresAt: Option[Long], stamp: Stamp) {

  def expired(now: Long): Boolean = expiresAt.exists(_ <= now)
}

/** A file that is replaced, and never written to, has another inode or another time of change. */
final private[credentials] case class Stamp(file: AnyRef, modified: Long, size: Long)

/** When to look at the file again, and whether to wait for another one. All times in milliseconds. */
private[credentials] object Freshness {

  /** A look a second costs the requests between nothing; what is replaced at half time is found long before its end. */
  val LookEvery = 1000L

  /**
   * How long a request waits for those who renew: a restart of the engine, or a store that issues none for a moment.
   */
  val WaitFor = 30000L

  /**
   * @param lookedAt
   *   when the file was last looked at
   * @param doubted
   *   whether the store has refused what is held since then
   */
  def mustLook(held: Held, now: Long, lookedAt: Long, doubted: Boolean): Boolean =
    doubted || now - lookedAt >= LookEvery || now < lookedAt || held.expired(now)

  /**
   * Expired credentials are waited for once. Should nobody renew them, they are tried all the same: the store's clock
   * is the one that counts, and its refusal says more than ours.
   */
  def mustWait(held: Held, now: Long, waitedFor: Option[Stamp]): Boolean =
    held.expired(now) && !waitedFor.contains(held.stamp)
}
