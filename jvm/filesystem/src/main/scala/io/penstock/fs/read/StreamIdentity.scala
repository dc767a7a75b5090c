package io.penstock.fs.read

import io.penstock.fs.Counters
import io.penstock.fs.cache.ObjectIdentity

/**
 * Which version of its object a stream reads: settled before the first byte is given out, and the same until the end.
 *
 * @param status
 *   what the caller opened the object with; its modification time is 0 if the caller did not know
 * @param told
 *   the entity tag in the caller's status
 * @param maxStaleness
 *   milliseconds for which what was seen before is believed
 * @param mayBeKept
 *   pages of the object may be here under a version that the caller does not know
 */
final private[read] class StreamIdentity(
    status: ObjectStatus,
    known: KnownObjects,
    strict: Boolean,
    told: Option[String],
    source: ObjectSource,
    maxStaleness: Long,
    mayBeKept: Boolean = false
) {
  import StreamIdentity._

  @volatile private var state: State = initial

  private def initial: State = Identification.decide(told, record(), strict, now, maxStaleness, mayBeKept) match {
    case Identification.Given(etag) => Settled(Some(etag), Some(named(etag)))
    case Identification.Seen(etag) => Believed(named(etag))
    case Identification.Confirm(etag) => Unconfirmed(etag)
    case Identification.Learn => Unknown
  }

  private def now: Long = System.currentTimeMillis

  private def record(): Option[KnownObject] = if (status.modified > 0) known.get(status) else None

  private def named(etag: String) = ObjectIdentity(status.bucket, status.key, status.length, etag)

  /**
   * The version whose pages may be looked for; null if it is unknown, or has none that could be kept. May ask the
   * store.
   */
  def pages(): ObjectIdentity = state match {
    case Settled(_, identity) => identity.orNull
    case Believed(identity) => identity
    case Unknown => null
    case Unconfirmed(_) =>
      confirm()
      pages()
  }

  /** The entity tag that every response must carry. */
  def expected: Option[String] = state match {
    case Settled(etag, _) => etag
    case Believed(identity) => Some(identity.etag)
    case _ => None
  }

  /** Whether the first response will tell. */
  def unknown: Boolean = state == Unknown

  /**
   * Settle on this version, of which a page is about to be given out, so that no other will do.
   *
   * @return
   *   false if another thread has turned to another version meanwhile: then the page must not be given out
   */
  def givesOut(of: ObjectIdentity): Boolean = state match {
    case Settled(etag, _) => etag.contains(of.etag)
    case _ =>
      synchronized(state match {
        case Settled(etag, _) => etag.contains(of.etag)
        case Believed(identity) if identity.etag == of.etag =>
          state = Settled(Some(identity.etag), Some(identity))
          true
        case _ => false
      })
  }

  /** Another thread or process may have learnt it meanwhile. */
  def lookAgain(): Unit = synchronized {
    if (state == Unknown && !strict) state = initial
  }

  /**
   * Settle on this version, which the store has answered with, unless another is settled.
   *
   * @return
   *   whether the stream reads this version: the bytes of any other must not be given out, nor kept as this one's
   */
  def settle(version: Version): Boolean = synchronized {
    state match {
      // A store without entity tags cannot be asked for a version.
      case Settled(etag, _) => etag.isEmpty || etag == version.etag
      case _ =>
        val sameLength = version.length == status.length
        state = Settled(version.etag, version.etag.filter(_ => sameLength).map(named))
        if (sameLength) version.etag.foreach(remember(version, _))
        else Counters.ObjectsChanged.increment()
        true
    }
  }

  private def remember(version: Version, etag: String): Unit =
    // A version that was modified since the caller's status was made is not what that status stands for.
    if (status.modified > 0 && version.modified == status.modified) known.put(status, etag, version.answered, now)

  /**
   * The store refused the version with this entity tag.
   *
   * @return
   *   whether nothing of it has been given out, so that the present version, or the one that another thread has settled
   *   on, can take its place
   */
  def changed(refused: Option[String]): Boolean = synchronized {
    Counters.ObjectsChanged.increment()
    known.forget(status)
    state match {
      case Believed(identity) =>
        if (refused.contains(identity.etag)) state = Unknown
        true
      case Settled(etag, _) => etag != refused
      case Unknown => true
      case Unconfirmed(_) => false
    }
  }

  private def confirm(): Unit = synchronized {
    state match {
      case Unconfirmed(etag) =>
        // S3A gives streams no HEAD: a request for one byte tells the same.
        val version = source.retrying("confirm") {
          val response = source.get(0, 1, etag)
          try response.version
          finally response.close()
        }
        settle(version): Unit
      case _ => ()
    }
  }

  /** A name for what is known of the object before its version is, such as the claim on being the one who learns. */
  lazy val nameless: ObjectIdentity = named(s"?${status.modified}")
}

private object StreamIdentity {

  sealed private trait State

  /** Nothing is known, and nothing has been given out. */
  private case object Unknown extends State

  /** To be asked for before anything is given out; it must have this entity tag, if any. */
  final private case class Unconfirmed(etag: Option[String]) extends State

  /** Known from an earlier open; nothing of it has been given out. */
  final private case class Believed(identity: ObjectIdentity) extends State

  /** @param identity none if its pages cannot be kept: no entity tag, or not the length the caller knows */
  final private case class Settled(etag: Option[String], identity: Option[ObjectIdentity]) extends State

}
