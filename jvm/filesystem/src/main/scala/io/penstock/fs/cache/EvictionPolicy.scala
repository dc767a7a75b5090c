package io.penstock.fs.cache

/**
 * Which page goes when one must: a clock with frequencies.
 *
 * A hand sweeps the slots. A page that was not found since it came goes at once, so a scan pushes out only itself. One
 * that was found is worth 1 to 3, and loses one only after [[DecayAfter]] seconds without being found: what is in use
 * is forgotten with time, not with pressure, however long the scan. Where everything was found lately, the least of
 * [[Candidates]] goes, as in a sampled LFU.
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

  def judge(word: SlotWord, now: Int): Verdict = word.state match {
    case SlotWord.Free => Keep
    case SlotWord.Reserved | SlotWord.Evicting => if (word.age(now) > Abandoned) Reclaim else Keep
    case _ if word.frequency == 0 => Evict
    case _ => if (word.age(now) > DecayAfter) Decay else Keep
  }

  /** Why a page comes to a tier: somebody reads it, or has written it, and then perhaps nobody ever reads it. */
  sealed trait Cause
  case object Read extends Cause
  case object Written extends Cause

  /**
   * Whether a page that must leave its tier is worth being written to the next.
   *
   * @param cause
   *   of the page that it makes room for: what is written and not read must not cost a copy of what nobody has read
   *   either
   */
  def isWorthMoving(word: SlotWord, cause: Cause, roomLeft: Boolean): Boolean =
    word.wasHit || (cause == Read && roomLeft)

  /** Which of several present pages goes first: the one worth least. */
  def worth(word: SlotWord, now: Int): Int = (word.frequency << 20) + (SlotWord.MaxAge - word.age(now))

  /** The word of a present page that was just found; the same word if that changes nothing. */
  def found(word: SlotWord, now: Int): SlotWord =
    if (word.frequency < SlotWord.MaxFrequency)
      if (word.age(now) >= SameUse) word.found(word.frequency + 1, now) else word
    else if (word.age(now) >= RenewAfter) word.found(word.frequency, now)
    else word
}
