package io.penstock.fs.read

import org.apache.hadoop.fs.s3a.S3AInputPolicy

/**
 * How far ahead of a reader its pages are fetched: nothing for one who jumps, twice as much with every step for one who
 * reads on, up to a limit while they must be kept until he comes.
 *
 * A step is due when the reader enters the first page of what was fetched ahead last, so that one fetch is on its way
 * while its predecessor is read.
 *
 * @param most
 *   pages that are fetched ahead at once; 0 turns reading ahead off
 * @param until
 *   the first page that the reader is not expected to want
 * @param pages
 *   that the object has
 * @param window
 *   pages to fetch with the next step; 0 while the reader jumps
 * @param due
 *   the page whose reading causes the next step
 * @param fetched
 *   the first page not yet asked for ahead
 * @param hasJumped
 *   the reader has jumped before, and may again
 * @param passes
 *   there is no room to keep what would be fetched ahead: the reader takes it from the response itself
 */
final private[read] case class ReadAhead private (
    policy: S3AInputPolicy,
    most: Int,
    until: Long,
    pages: Long,
    window: Int,
    due: Long,
    fetched: Long,
    steps: Int,
    passes: Boolean,
    hasJumped: Boolean
) {
  import ReadAhead._

  /** Whether the reader, who has read nothing yet, is one who reads on. */
  def expectsMore: Boolean = patience == 0 && most > 0

  /** Bytes that are worth reading beyond what is asked for; none for who reads by position. */
  def readsOver(shortestSeek: Int): Long = if (most == 0) 0 else shortestSeek.toLong

  /** Whether the reader, who has entered a page, reads the object through. */
  def scans: Boolean = window > 0

  /**
   * The reader, who has read on or jumped, wants `page`.
   *
   * @return
   *   and the pages to fetch now behind that page, if any
   */
  def enter(page: Long, by: Step): (ReadAhead, Option[Request]) =
    if (by == Jump) (jumped, None)
    // A line of text ends beyond the split it began in; who reads on there has to show that anew.
    else if (page >= until) (jumped.copy(until = pages), None)
    else if (by == SameRead && !scans) (this, None)
    else if (steps < patience) (copy(steps = steps + 1), None)
    else if (page < due || most == 0 || passes) (this, None)
    else {
      val from = math.max(fetched, page + 1)
      val step = if (window > 0) window else firstWindow
      val end = math.min(until, from + step)
      val next = copy(window = math.min(most, step * 2), due = from, fetched = math.max(from, end))
      (next, if (from < end) Some(Request(from, end - 1)) else None)
    }

  /** What was fetched ahead was gone when it was wanted, or would be. */
  def pointless: ReadAhead = copy(passes = true)

  /**
   * The pages from `page` on to ask for with one response that the reader takes itself: all that follow for who has
   * said so, or has not jumped yet, as S3A does; else ever more.
   */
  def passage(page: Long): (ReadAhead, Request) = {
    val toTheEnd = policy == S3AInputPolicy.Sequential || (policy != S3AInputPolicy.Random && !hasJumped)
    val length = if (toTheEnd) pages else math.max(window, 1).toLong
    (copy(window = math.min(window, Int.MaxValue / 2) * 2), Request(page, math.min(until, page + length) - 1))
  }

  private def jumped: ReadAhead = copy(window = 0, due = 0, fetched = 0, steps = 0, passes = false, hasJumped = true)

  private def patience: Int = if (policy == S3AInputPolicy.Random) RandomReaderSteps else 0

  private def firstWindow: Int = if (policy == S3AInputPolicy.Sequential) most else math.min(most, 2)
}

private[read] object ReadAhead {

  /** How a reader comes to a page. */
  sealed trait Step

  /** With a read from elsewhere than where the last one ended. */
  case object Jump extends Step

  /** With a read from there, or its first. */
  case object ReadOn extends Step

  /** With a read that has brought it to other pages already: however long that is, it tells nothing of the next one. */
  case object SameRead extends Step

  /** Pages that a reader announced as random must read on through before it is believed to be sequential. */
  val RandomReaderSteps = 2

  /**
   * Of a reader who has just opened an object.
   *
   * @param end
   *   the byte before which he has said that he ends, as a split does; the object's length if he has not
   */
  def apply(policy: S3AInputPolicy, most: Int, layout: Layout, end: Long): ReadAhead = {
    val until = if (end <= 0 || end >= layout.length) layout.pages else layout.pageOf(end - 1) + 1
    new ReadAhead(policy, most, until, layout.pages, 0, 0, 0, 0, passes = false, hasJumped = false)
  }
}
