package io.penstock.fs.read

/** How a stream gets to know which version of the object it reads. */
sealed private[read] trait Identification

private[read] object Identification {

  /** The caller said so: every response must carry this entity tag. */
  final case class Given(etag: String) extends Identification

  /** This version was seen under the status that the caller has, lately; no other version can have that status. */
  final case class Seen(etag: String) extends Identification

  /**
   * The store is asked before the first page is given out.
   *
   * @param etag
   *   what it must answer, if the caller said so; any answer will do otherwise
   */
  final case class Confirm(etag: Option[String]) extends Identification

  /** Nobody knows: the first response tells. */
  case object Learn extends Identification

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
   *   milliseconds for which a record is believed after the store has confirmed it
   * @param mayBeKept
   *   pages of the object may well be here, from its writer or from another reader: it is better to ask for a byte and
   *   to find them than to fetch them again
   */
  def decide(
      etag: Option[String],
      record: Option[KnownObject],
      strict: Boolean,
      now: Long = 0,
      maxStaleness: Long = 0,
      mayBeKept: Boolean = false
  ): Identification =
    (etag, record) match {
      case (Some(tag), _) => if (strict) Confirm(Some(tag)) else Given(tag)
      case (None, Some(known)) =>
        if (strict || known.racy || known.isStale(now, maxStaleness)) Confirm(None) else Seen(known.etag)
      case (None, None) => if (mayBeKept) Confirm(None) else Learn
    }
}

/**
 * A version that was seen under a status.
 *
 * @param racy
 *   it was seen so soon after its modification that another version could have got the same modification time since
 * @param confirmed
 *   when the store last said so, by this machine's clock, in milliseconds since 1970
 */
final private[read] case class KnownObject(etag: String, racy: Boolean, confirmed: Long) {

  /** What was confirmed in the future was confirmed before the clock was set back: nobody knows how long ago. */
  def isStale(now: Long, maxStaleness: Long): Boolean = confirmed > now || now - confirmed > maxStaleness
}

private[read] object KnownObject {

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
