package io.penstock.fs.cache

/**
 * Which page goes when one must, and for whom: a clock with frequencies.
 *
 * A hand sweeps the slots. A page that was not found since it came is worth nothing. One that was found is worth 1 to
 * 3, and loses one only after [[DecayAfter]] seconds without being found: what is in use is forgotten with time, not
 * with pressure, however long the scan.
 *
 * A newcomer takes the place of what is worth less than itself, which depends on why it comes ([[Cause]]). A scan's
 * page is worth as little as those that an equal scan has left, so it takes their place only once they have had their
 * time: else a scan of more than the tier holds would push out, page by page, what it is going to read again.
 */
private[cache] object EvictionPolicy {

  sealed trait Verdict
  case object Keep extends Verdict
  case object Decay extends Verdict
  case object Evict extends Verdict

  /** Whoever was filling or evicting it has died. */
  case object Reclaim extends Verdict

  /** Finding a page again within these seconds is the same use: a reader that comes back for the next record. */
  val SameUse = 2

  /** Seconds. Long enough to survive the other stages of a job, short enough to follow a change of work. */
  val DecayAfter = 120

  /** Seconds after which a filling or an eviction counts as abandoned: each takes milliseconds. */
  val Abandoned = 60

  /** Pages in use that the hand passes before it takes the least of them. */
  val Candidates = 64

  /** Renewing the stamp of a page in constant use more often than this would cost a write per read. */
  private val RenewAfter = 16

  def judge(word: SlotWord, now: Int, cause: Cause): Verdict = word.state match {
    case SlotWord.Free => Keep
    case SlotWord.Reserved | SlotWord.Evicting => if (word.age(now) > Abandoned) Reclaim else Keep
    case _ if word.frequency == 0 => if (cause == Scanned && word.age(now) <= DecayAfter) Keep else Evict
    case _ => if (word.age(now) > DecayAfter) Decay else Keep
  }

  /** Why a page comes to a tier. */
  sealed trait Cause

  /** Somebody reads this very page. Where everything is in use, it takes the place of the least of [[Candidates]]. */
  case object Read extends Cause

  /** Somebody reads the object from one end to the other, and this page is on the way. */
  case object Scanned extends Cause

  /** Somebody has written it, and then perhaps nobody ever reads it; if somebody does, that is still to come. */
  case object Written extends Cause

  /** What a page is worth when it comes: a written one waits for its first reader as a found one does for the next. */
  def worthAtFirst(cause: Cause): Int = if (cause == Written) 1 else 0

  /** Whether a newcomer takes the least of those in use where nothing is worth less than it. */
  def yieldsToLeast(cause: Cause): Boolean = cause == Read

  /**
   * Whether a page that must leave its tier is worth being written to the next.
   *
   * @param cause
   *   of the page that it makes room for: what is written and not read must not cost a copy of what nobody has read
   *   either
   */
  def isWorthMoving(word: SlotWord, cause: Cause, roomLeft: Boolean): Boolean =
    word.wasHit || (cause != Written && roomLeft)

  /** Which of several present pages goes first: the one worth least. */
  def worth(word: SlotWord, now: Int): Int = (word.frequency << 20) + (SlotWord.MaxAge - word.age(now))

  /** The word of a present page that was just found; the same word if that changes nothing. */
  def found(word: SlotWord, now: Int): SlotWord =
    if (word.frequency == SlotWord.MaxFrequency)
      if (word.age(now) >= RenewAfter) word.found(word.frequency, now) else word
    else if (word.age(now) < SameUse) word
    // What it was kept for has happened: from now on it is as any page that was read once.
    else if (word.isAwaited) word.present(worthAtFirst(Read), now)
    else word.found(word.frequency + 1, now)
}
