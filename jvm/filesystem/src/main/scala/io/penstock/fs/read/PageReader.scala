package io.penstock.fs.read

import java.io.{IOException, InterruptedIOException}
import java.util.concurrent.RejectedExecutionException

import scala.annotation.tailrec

import io.penstock.fs.cache.{ObjectVersion, Page, PageCache}

/**
 * The pages of one version of one object, from the cache or from the store. Every method may be called from any thread.
 *
 * @param background
 *   runs a task some time, and never waits
 * @param active
 *   requests that one reader may have on their way at once
 * @param tags
 *   with what small objects are compared that come whole
 */
final private[read] class PageReader(
    cache: PageCache,
    val plan: ReadPlan,
    resolver: VersionResolver,
    source: ObjectSource,
    val background: Runnable => Unit,
    val active: Int,
    tags: EtagVerifier
) {

  val layout: Layout = plan.layout

  private val fetcher = new PageFetcher(source, cache, plan, resolver, tags)

  /**
   * Settles the version, if that takes asking the store: after this, [[find]] does not fail for those pages, unless
   * [[mustAsk]].
   */
  def prepare(pages: => Iterator[Long]): Unit = {
    resolver.pages(): Unit
    if (resolver.isClaimed && pages.exists(has)) resolver.confirmClaim()
  }

  /** Whether the store is asked before any page is given out. */
  def mustAsk: Boolean = resolver.isClaimed

  /** The store gave the status that the object was opened with in answer to a question of this time. */
  def listed(asked: Long): Unit = resolver.listed(asked)

  /** The page, if a tier has it; null otherwise. */
  @tailrec def find(index: Long): Page = {
    val of = resolver.pages()
    if (of == null) null
    else
      cache.find(of, index) match {
        case Some(page) if givesOut(of, page) => page
        case Some(page) =>
          page.close()
          find(index)
        case None => null
      }
  }

  private def givesOut(of: ObjectVersion, page: Page): Boolean =
    try {
      resolver.confirmClaim()
      resolver.givesOut(of)
    } catch {
      case failure: Throwable =>
        page.close()
        throw failure
    }

  /** Whether the page is there, as far as is known without touching it. */
  def has(index: Long): Boolean = {
    val of = resolver.pages()
    of != null && cache.has(of, index)
  }

  /** Whether pages that are fetched before they are wanted would be there then. */
  private def keeps: Boolean = cache.keeps && (resolver.unknown || resolver.pages() != null)

  /** What to ask for, so that those pages of `span` come that are not there. */
  def missing(span: Request): Vector[Request] = plan.requests((span.first to span.last).filterNot(has))

  /** As [[missing]], for who reads the object through. */
  def missingInScan(span: Request): Vector[Request] =
    plan.forScan.requests((span.first to span.last).filterNot(has))

  /** Whether the pages of those requests would be kept until who reads the object through comes to them. */
  def hasRoom(requests: Seq[Request]): Boolean =
    keeps && requests.map(request => layout.end(request.last) - layout.start(request.first)).sum <= cache.room

  /**
   * Whether a reader of `wanted` bytes on the pages of `span` is to have those pages fetched and kept, rather than the
   * bytes alone, of which a request of his own would bring `request`.
   */
  def admits(span: Request, wanted: Long, request: Long): Boolean =
    cache.admits(resolver.nameless, span.first, span.last, wanted, request)

  /** Whether the pages that those requests would bring ahead of who reads the object through are to be kept. */
  def admitsScan(requests: Seq[Request]): Boolean = requests.forall { one =>
    val bytes = layout.end(one.last) - layout.start(one.first)
    admits(one, bytes, plan.longestRequest.max(bytes))
  }

  /**
   * Opens a response for what is missing of `wanted`, whose first page is.
   *
   * @param from
   *   a byte of the first page, where the reader stands
   */
  def openThrough(wanted: Request, from: Long, use: ReadThroughStream.Use): ReadThroughStream = {
    val through = plan.readThrough(wanted, has)
    val start = if (use == ReadThroughStream.Straight) from else layout.start(through.first)
    readThrough(start, layout.end(through.last), use)
  }

  /** Opens a response for these bytes; as [[PageFetcher.readThrough]]. */
  def readThrough(
      from: Long,
      until: Long,
      use: ReadThroughStream.Use,
      stopped: () => Boolean = () => false
  ): ReadThroughStream = fetcher.readThrough(from, until, use, stopped)

  /** Brings all pages of `request`; as [[PageFetcher.fetch]]. */
  def fetch(request: Request, scanned: Boolean, sink: PageSink, stopped: () => Boolean): Unit =
    fetcher.fetch(request, demanded = true, scanned, sink, stopped)

  private def begin(request: Request): PrefetchTask = {
    val task = new PrefetchTask(request, fetcher.fetch(_, demanded = false, scanned = true, _, _))
    try background(task)
    // The file system is being closed: the reader will find out by itself.
    catch { case _: RejectedExecutionException => () }
    task
  }

  /**
   * Begins to bring pages into the cache: as many of `requests` as may be on their way besides the reader's own, and
   * `others` that are already.
   */
  def prefetch(requests: Seq[Request], others: Int): Seq[PrefetchTask] =
    if (keeps) requests.take(active - others).map(begin) else Nil
}

/**
 * Pages on their way to the cache in the background, for one reader who will want them soon. A failure is none of the
 * reader's business: what has not come it asks for itself.
 *
 * The reader never waits for a thread of a pool: a fetch that has not begun when its pages are wanted is called off.
 */
final private[read] class PrefetchTask(val request: Request, fetch: (Request, PageSink, () => Boolean) => Unit)
    extends Runnable {

  private var begun = false
  private var over = false

  /** Pages before this one have come, or will not. */
  private var next = request.first

  @volatile private var stopped = false

  /** Nobody wants the pages any more. */
  def stop(): Unit = stopped = true

  override def run(): Unit =
    if (begins())
      try fetch(request, Progress, () => stopped)
      catch { case _: IOException => () }
      finally
        synchronized {
          over = true
          notifyAll()
        }

  private def begins(): Boolean = synchronized {
    begun = !stopped
    begun
  }

  private object Progress extends PageSink {
    override def givesOut: Boolean = false
    override def arrived(index: Long, page: Page): Boolean = true

    override def fetched(index: Long, data: Array[Byte], length: Int): Boolean = {
      PrefetchTask.this.synchronized {
        next = math.max(next, index + 1)
        PrefetchTask.this.notifyAll()
      }
      false
    }
  }

  /**
   * Waits until `page`, one of the request's, has come or will not.
   *
   * @throws java.io.InterruptedIOException
   *   if the thread is interrupted, as it stays
   * @return
   *   the pages that the reader has to fetch itself because this fetch has not begun, and now never will
   */
  def await(page: Long): Option[Request] = synchronized {
    if (!begun) {
      stopped = true
      Some(Request(page, request.last))
    } else {
      try while (!over && next <= page) wait()
      catch {
        case e: InterruptedException =>
          Thread.currentThread.interrupt()
          throw new InterruptedIOException(s"interrupted while page $page was on its way").initCause(e)
      }
      None
    }
  }
}
