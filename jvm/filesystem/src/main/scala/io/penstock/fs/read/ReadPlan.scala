package io.penstock.fs.read

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
  def passage(wanted: Request, has: Long => Boolean): Request = {
    val most = math.min(wanted.last, wanted.first + ReadPlan.LongestPassage - 1)
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
  val LongestPassage = 4096
}
