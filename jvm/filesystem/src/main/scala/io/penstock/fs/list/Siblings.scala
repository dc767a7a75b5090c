package io.penstock.fs.list

import java.util.concurrent.atomic.AtomicLong

/** What to do about the listing of one partition directory. */
sealed private[list] trait Answer

private[list] object Answer {

  /** The directory was listed with one before it. */
  final case class Known(objects: Vector[ListedObject]) extends Answer

  /** One request for the directory and what follows it, of so many objects at most. */
  final case class Ahead(objects: Int) extends Answer

  /** As if there were no listing ahead. */
  case object Alone extends Answer
}

/**
 * The policy of listing ahead, of the directories below one parent. Pure: times are given, in nanoseconds of one clock.
 *
 * Whoever lists two partitions within [[Siblings.Pause]] is expected to list those that follow them. What was learnt
 * ahead is told once, and forgotten after [[Siblings.MaxAge]] or once the lister has paused: so partitions listed one
 * after the other count as one listing, of the time at which its page was asked for.
 */
final private[list] class Siblings {
  import Siblings._

  private var known = Map.empty[String, Vector[ListedObject]]
  private var learnt = 0
  private var askedAt = 0L

  /** Read without the lock of whoever uses this, by those who tidy up. */
  @volatile private var pausedSince = Option.empty[Long]
  private var objects = FirstPage
  private var hopeless = false
  private var learntAfter = 0L
  private val changeCount = new AtomicLong

  def ask(directory: String, now: Long): Answer = {
    val goesOn = pausedSince.exists(now - _ <= Pause)
    if (!goesOn) begin()
    else if (now - askedAt > MaxAge || changes != learntAfter) known = Map.empty
    known.get(directory) match {
      case Some(objects) =>
        known -= directory
        pausedSince = Some(now)
        Answer.Known(objects)
      case None if !goesOn || hopeless => Answer.Alone
      case None => Answer.Ahead(nextPage())
    }
  }

  /** How often something below the parent was changed by this process. */
  def changes: Long = changeCount.get

  /** Told by whoever changes something, without the lock of whoever uses this. */
  def changed(): Unit = changeCount.incrementAndGet(): Unit

  /**
   * The page that [[ask]] wanted for `directory`; what the directory holds, if the page tells.
   *
   * @param after
   *   how many changes there had been when the page was asked for: with one more it may be older than that
   */
  def learn(
      directory: String,
      partitions: Map[String, Vector[ListedObject]],
      asked: Long,
      after: Long
  ): Option[Vector[ListedObject]] = {
    learntAfter = after
    known = partitions - directory
    learnt = known.size
    askedAt = asked
    // Larger than the page, or with directories of its own: so are those that follow.
    if (!partitions.contains(directory)) {
      hopeless = objects == LargestPage
      objects = LargestPage
    }
    partitions.get(directory)
  }

  /** The caller has its answer. */
  def answered(now: Long): Unit = pausedSince = Some(now)

  def isIdle(now: Long): Boolean = pausedSince.forall(now - _ > Pause)

  private def begin(): Unit = {
    known = Map.empty
    learnt = 0
    objects = FirstPage
    hopeless = false
  }

  /** Larger while most of what is learnt is asked for, and small where partitions are picked here and there. */
  private def nextPage(): Int = {
    if (learnt > 0)
      objects = if (2 * known.size <= learnt) math.min(objects * Growth, LargestPage) else FirstPage
    objects
  }
}

private[list] object Siblings {

  /** Between an answer and the next question of one lister. */
  val Pause: Long = 100L * 1000 * 1000

  /** Of what is told without asking the store. */
  val MaxAge: Long = 1000L * 1000 * 1000

  val FirstPage = 50
  val Growth = 5

  /** What S3 gives at most with one request. */
  val LargestPage = 1000
}
