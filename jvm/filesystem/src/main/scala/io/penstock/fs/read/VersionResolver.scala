package io.penstock.fs.read

import org.apache.hadoop.fs.s3a.RemoteFileChangedException

import io.penstock.fs.cache.ObjectVersion
import io.penstock.fs.metrics.Counters

/**
 * Which version of its object a stream reads: settled before the first byte is given out, and the same until the end.
 *
 * @param status
 *   what the caller opened the object with; its modification time is 0 if the caller did not know
 * @param callers
 *   the entity tag in the caller's status
 * @param maxStaleness
 *   milliseconds for which what was seen before is believed
 * @param mayBeKept
 *   pages of the object may be here under a version that the caller does not know
 */
final private[read] class VersionResolver(
    status: ObjectStatus,
    known: ObjectMetadataCache,
    strict: Boolean,
    callers: Option[String],
    source: ObjectSource,
    maxStaleness: Long,
    mayBeKept: Boolean = false
) {
  import VersionResolver._

  /** Whether the version is settled by a status of unknown age, and the store has not confirmed it since. */
  @volatile private var claimed = false

  @volatile private var state: State = initial

  private def initial: State =
    VersionPolicy.decide(callers, record(), strict, now, maxStaleness, mayBeKept = mayBeKept) match {
      case VersionPolicy.Given(etag) => Settled(Some(etag), Some(named(etag)))
      case VersionPolicy.Claimed(etag) =>
        claimed = true
        Settled(Some(etag), Some(named(etag)))
      case VersionPolicy.Seen(etag) => Believed(named(etag))
      case VersionPolicy.Confirm(etag) => Unconfirmed(etag)
      case VersionPolicy.Learn => Unknown
    }

  private def now: Long = System.currentTimeMillis

  private def record(): Option[ObjectMetadata] = if (status.modified > 0) known.get(status) else None

  private def named(etag: String) = ObjectVersion(status.bucket, status.key, status.length, etag)

  /**
   * The version whose pages may be looked for; null if it is unknown, or has none that could be kept. May ask the
   * store.
   */
  def pages(): ObjectVersion = state match {
    case Settled(_, version) => version.orNull
    case Believed(version) => version
    case Unknown => null
    case Unconfirmed(_) =>
      confirm()
      pages()
  }

  /** Whether [[confirmClaim]] asks the store. */
  def isClaimed: Boolean = claimed

  /** The store gave the caller's status in answer to a question of this time, in milliseconds since 1970. */
  def listed(asked: Long): Unit = if (!VersionPolicy.isStale(asked, now, maxStaleness)) claimed = false

  /**
   * Asks the store for the version of a status of unknown age, which may have been replaced long ago, unless the store
   * has answered with it already. To be called before a page is given out.
   *
   * @throws org.apache.hadoop.fs.s3a.RemoteFileChangedException
   *   it is another version now
   */
  def confirmClaim(): Unit = if (claimed) synchronized {
    if (claimed) settle(reading(ask(expected))): Unit
  }

  /** The entity tag that every response must carry. */
  def expected: Option[String] = state match {
    case Settled(etag, _) => etag
    case Believed(version) => Some(version.etag)
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
  def givesOut(of: ObjectVersion): Boolean = state match {
    case Settled(etag, _) => etag.contains(of.etag)
    case _ =>
      synchronized(state match {
        case Settled(etag, _) => etag.contains(of.etag)
        case Believed(version) if version.etag == of.etag =>
          state = Settled(Some(version.etag), Some(version))
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
      case Settled(etag, _) =>
        val same = etag.isEmpty || etag == version.etag
        if (same && claimed) {
          claimed = false
          if (version.length == status.length) etag.foreach(remember(version, _))
        }
        same
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
      case Believed(version) =>
        if (refused.contains(version.etag)) state = Unknown
        true
      case Settled(etag, _) => etag != refused
      case Unknown => true
      case Unconfirmed(_) => false
    }
  }

  /** Reads from a response; if the store refuses its version meanwhile, that is no longer believed to be there. */
  def reading[A](work: => A): A =
    try work
    catch {
      case refused: RemoteFileChangedException =>
        changed(expected): Unit
        throw refused
    }

  private def confirm(): Unit = synchronized {
    state match {
      case Unconfirmed(etag) =>
        settle(ask(etag)): Unit
      case _ => ()
    }
  }

  /** S3A gives streams no HEAD: a request for one byte tells the same. */
  private def ask(etag: Option[String]): Version = source.retrying("confirm") {
    val response = source.get(0, 1, etag)
    try response.version
    finally response.close()
  }

  /** A name for what is known of the object before its version is, such as the claim on being the one who learns. */
  lazy val nameless: ObjectVersion = named(s"?${status.modified}")
}

private object VersionResolver {

  sealed private trait State

  /** Nothing is known, and nothing has been given out. */
  private case object Unknown extends State

  /** To be asked for before anything is given out; it must have this entity tag, if any. */
  final private case class Unconfirmed(etag: Option[String]) extends State

  /** Known from an earlier open; nothing of it has been given out. */
  final private case class Believed(version: ObjectVersion) extends State

  /** @param version none if its pages cannot be kept: no entity tag, or not the length the caller knows */
  final private case class Settled(etag: Option[String], version: Option[ObjectVersion]) extends State

}

/** How a stream gets to know which version of the object it reads. */
sealed private[read] trait VersionPolicy

private[read] object VersionPolicy {

  /** The caller said so, and the store said so lately: every response must carry this entity tag. */
  final case class Given(etag: String) extends VersionPolicy

  /** As [[Given]], but the caller may know it from long ago: no page is given out before the store agrees. */
  final case class Claimed(etag: String) extends VersionPolicy

  /** This version was seen under the status that the caller has, lately; no other version can have that status. */
  final case class Seen(etag: String) extends VersionPolicy

  /**
   * The store is asked before the first page is given out.
   *
   * @param etag
   *   what it must answer, if the caller said so; any answer will do otherwise
   */
  final case class Confirm(etag: Option[String]) extends VersionPolicy

  /** Nobody knows: the first response tells. */
  case object Learn extends VersionPolicy

  /**
   * @param etag
   *   the entity tag in the status that the caller opened the object with
   * @param record
   *   what is remembered of an object with that status
   * @param strict
   *   no status and no record is believed
   * @param now
   *   by this machine's clock, in milliseconds since 1970
   * @param maxStaleness
   *   milliseconds for which a record or a status is believed after the store has confirmed it
   * @param asked
   *   when the store was asked for the caller's status, by the same clock as `now`; none if nobody knows
   * @param mayBeKept
   *   pages of the object may well be here, from its writer or from another reader: it is better to ask for a byte and
   *   to find them than to fetch them again
   */
  def decide(
      etag: Option[String],
      record: Option[ObjectMetadata],
      strict: Boolean,
      now: Long = 0,
      maxStaleness: Long = 0,
      asked: Option[Long] = None,
      mayBeKept: Boolean = false
  ): VersionPolicy =
    (etag, record) match {
      case (Some(tag), _) if strict => Confirm(Some(tag))
      case (Some(tag), _) =>
        val confirmed = asked ++ record.filter(_.etag == tag).map(_.confirmed)
        if (confirmed.exists(!isStale(_, now, maxStaleness))) Given(tag) else Claimed(tag)
      case (None, Some(known)) =>
        if (strict || known.racy || known.isStale(now, maxStaleness)) Confirm(None) else Seen(known.etag)
      case (None, None) => if (mayBeKept) Confirm(None) else Learn
    }

  /** What was confirmed in the future was confirmed before the clock was set back: nobody knows how long ago. */
  def isStale(confirmed: Long, now: Long, maxStaleness: Long): Boolean =
    confirmed > now || now - confirmed > maxStaleness
}

/**
 * A version that was seen under a status.
 *
 * @param racy
 *   it was seen so soon after its modification that another version could have got the same modification time since
 * @param confirmed
 *   when the store last said so, by this machine's clock, in milliseconds since 1970
 */
final private[read] case class ObjectMetadata(etag: String, racy: Boolean, confirmed: Long) {

  def isStale(now: Long, maxStaleness: Long): Boolean = VersionPolicy.isStale(confirmed, now, maxStaleness)
}

private[read] object ObjectMetadata {

  /**
   * Modification times count whole seconds, so an object that is overwritten twice in one second has one of them for
   * two versions (git's index has the same problem, and the same answer). The clocks of a store's gateways may differ
   * by a little: one second more. An upload in parts may be dated by its beginning, as AWS does, so that of two which
   * began in one second the later may end long after: what is seen of it sooner than that is confirmed each time,
   * unless the object's name holds a UUID, as those of Spark's files do, which nobody uses for two uploads.
   *
   * @param modified
   *   the object's modification time, in seconds; one in the future says nothing
   * @param seen
   *   the store's clock when it answered, in seconds
   */
  def racy(key: String, modified: Long, seen: Long, etag: String): Boolean = {
    val age = seen - modified
    // Every warm read asks this, mostly of versions that are older than that.
    age < 2 || (age < SecondsOfUpload && InParts.matches(etag) && !Unique.matches(key))
  }

  /** Entity tags that tell how many parts the upload had. */
  private val InParts = ".*-\\d+".r

  private val Unique = ".*[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}[^/]*".r

  private val SecondsOfUpload = 60
}
