package io.penstock.fs.read

import org.apache.hadoop.fs.s3a.S3AInputPolicy

/** How an object of `length` bytes lies on its pages. */
final private[read] case class Layout(length: Long, pageSize: Int) {
  val pages: Long = (length + pageSize - 1) / pageSize
  def pageOf(position: Long): Long = position / pageSize
  def start(page: Long): Long = page * pageSize

  /** The first byte after the page. */
  def end(page: Long): Long = math.min(length, start(page) + pageSize)
  def size(page: Long): Int = (end(page) - start(page)).toInt
}

/** The pages `first` to `last`, asked for with one range request. */
final private[read] case class Request(first: Long, last: Long) {
  require(0 <= first && first <= last, s"not a request: $this")
  def contains(page: Long): Boolean = first <= page && page <= last
}

/**
 * Which requests bring what a reader wants. Pages are always fetched whole: a reader who wants 64 KiB of a missing page
 * of 1 MiB pays for 1 MiB once, and whoever wants the rest of it pays nothing.
 *
 * @param longestRequest
 *   in bytes; only a single page may be longer
 * @param shortestSeek
 *   in bytes; a gap shorter than this is cheaper to read over than to start another request for
 *   (`fs.s3a.vectored.read.min.seek.size`)
 * @param readOver
 *   in bytes; the same for who reads the object through
 * @param longestMerged
 *   in bytes; the most that ranges are joined to which go to buffers alone (`fs.s3a.vectored.read.max.merged.size`)
 */
final private[read] case class ReadPlan(
    layout: Layout,
    longestRequest: Long,
    shortestSeek: Int,
    readOver: Int,
    longestMerged: Int
) {

  /**
   * The pages that a reader of `length` bytes (at least 1) from `position` should have.
   *
   * A small object comes whole. The first read of a stream, if it falls into the last page's worth of bytes, is a
   * reader of a footer, who goes on reading what stands before it (Parquet, ORC).
   */
  def span(position: Long, length: Long, firstRead: Boolean): Request = {
    val last = layout.pageOf(math.min(layout.length, position + length) - 1)
    val tail = math.max(0, layout.length - layout.pageSize)
    if (layout.pages <= ReadPlan.SmallObjectPages) Request(0, layout.pages - 1)
    else if (firstRead && position >= tail) Request(layout.pageOf(tail), layout.pages - 1)
    else Request(layout.pageOf(position), last)
  }

  /** The fewest requests for `missing` (ascending, no page twice) that keep both limits. */
  def requests(missing: Iterable[Long]): Vector[Request] =
    missing.foldLeft(Vector.empty[Request]) { (done, page) =>
      done.lastOption match {
        case Some(open) if joins(open, page) => done.init :+ Request(open.first, page)
        case _ => done :+ Request(page, page)
      }
    }

  /** For who reads the object through: pages that are here are read over where going around them costs more. */
  def forScan: ReadPlan = copy(shortestSeek = readOver)

  /**
   * The part of `wanted`, whose first page is missing, that one response should bring to who reads all of it and keeps
   * nothing: to its last missing page, or to where more is here than is worth reading over.
   */
  def readThrough(wanted: Request, has: Long => Boolean): Request = {
    val most = math.min(wanted.last, wanted.first + ReadPlan.LongestReadThrough - 1)
    var last = wanted.first
    var page = wanted.first + 1
    while (page <= most && (page == last + 1 || layout.start(page) - layout.end(last) < readOver)) {
      if (!has(page)) last = page
      page += 1
    }
    Request(wanted.first, last)
  }

  /** The ranges (ascending, apart from each other) that one request each brings, as S3A joins them. */
  def exact[A <: ReadPlan.Stretch](stretches: Seq[A]): Vector[Vector[A]] =
    stretches.foldLeft(Vector.empty[Vector[A]]) { (done, next) =>
      done.lastOption match {
        case Some(open) if next.from - open.last.until < shortestSeek && next.until - open.head.from <= longestMerged =>
          done.init :+ (open :+ next)
        case _ => done :+ Vector(next)
      }
    }

  /** Whether a gap of the pages after `open.last` and before `page` is read over rather than asked around. */
  def joins(open: Request, page: Long): Boolean = {
    val gap = layout.start(page) - layout.end(open.last)
    (gap == 0 || gap < shortestSeek) && layout.end(page) - layout.start(open.first) <= longestRequest
  }
}

private[read] object ReadPlan {

  /** The bytes `from` to `until` (exclusive). */
  trait Stretch {
    def from: Long
    def until: Long
  }

  /** Objects of at most so many pages are fetched whole. */
  val SmallObjectPages = 2

  /** In pages: looking for what is here must cost nothing beside the request. */
  val LongestReadThrough = 4096
}

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
  def readThrough(page: Long): (ReadAhead, Request) = {
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
