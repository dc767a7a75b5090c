package io.penstock.fs.read

import java.nio.ByteBuffer
import java.util.concurrent.{ArrayBlockingQueue, ConcurrentHashMap}

import org.apache.hadoop.fs.s3a.RangeNotSatisfiableEOFException

import io.penstock.fs.cache.Page
import io.penstock.fs.metrics.Counters

/**
 * A reader's place in an object. It keeps the page it stands on pinned, so that reading on within it costs a copy and
 * nothing else. Not thread-safe.
 *
 * Where no tier keeps that page it holds the page's bytes itself: one page of memory, until it is turned or released.
 * What is not to be kept, or finds no room, is read from one long response, the [[ReadThroughStream]].
 *
 * @param firstRead
 *   whether nothing has been read of the stream yet
 */
final private[read] class PositionedPageReader(
    reader: PageReader,
    private var position: Long,
    private var firstRead: Boolean,
    private var readAhead: ReadAhead
) {

  import ReadThroughStream._

  private val layout = reader.layout

  private var page: Page = _
  private var pageStart = 0L
  private var pageEnd = 0L

  /** Where the last read ended; a read from elsewhere jumps. */
  private var readUntil = position

  /** How the read that is under way comes to its next page. */
  private var step: ReadAhead.Step = ReadAhead.Jump
  private var prefetches = Seq.empty[PrefetchTask]
  private var through: ReadThroughStream = _

  /** Whether what is read through is to be kept where there is room for it. */
  private var keepsScan = true

  def at: Long = position

  def seek(target: Long): Unit = position = target

  /** Whether it holds a page or has requests on their way. */
  def holds: Boolean = page != null || prefetches.nonEmpty || through != null

  /**
   * Reads until `length` bytes or the object's end.
   *
   * @return
   *   -1 if there are none
   */
  def read(into: Array[Byte], offset: Int, length: Int): Int = {
    begin()
    val wanted = left(length)
    var done = 0
    while (done < wanted)
      if (page != null && position >= pageStart && position < pageEnd) {
        val n = math.min((wanted - done).toLong, pageEnd - position).toInt
        if (page.read((position - pageStart).toInt, into, offset + done, n)) {
          position += n
          done += n
        } else unpin()
      } else {
        val n = turn(ByteBuffer.wrap(into, offset + done, wanted - done))
        if (n < 0) return ended(done)
        done += n
      }
    ended(done)
  }

  /** As the other `read`, as many as `into` has room for. */
  def read(into: ByteBuffer): Int = {
    begin()
    val start = into.position()
    val limit = into.limit()
    val until = start + left(limit - start)
    while (into.position() < until)
      if (page != null && position >= pageStart && position < pageEnd) {
        val n = math.min((until - into.position()).toLong, pageEnd - position).toInt
        val from = into.position()
        into.limit(from + n)
        val read =
          try page.read((position - pageStart).toInt, into)
          finally into.limit(limit)
        into.position(if (read) from + n else from)
        if (read) position += n else unpin()
      } else {
        val from = into.position()
        into.limit(until)
        val n =
          try turn(into.slice())
          finally into.limit(limit)
        if (n < 0) return ended(from - start)
        into.position(from + n)
      }
    ended(into.position() - start)
  }

  /** How many of so many bytes the object has behind the position, which may be gigabytes behind the object's end. */
  private def left(wanted: Int): Int = math.max(0L, math.min(wanted.toLong, layout.length - position)).toInt

  private def begin(): Unit =
    step = if (firstRead || position == readUntil) ReadAhead.ReadOn else ReadAhead.Jump

  private def ended(done: Int): Int = {
    readUntil = position
    if (done > 0) done else -1
  }

  /**
   * Gets hold of the page at the position.
   *
   * @return
   *   how many bytes came from the store, and are in `into` already; -1 if the object has ended before its length
   */
  private def turn(into: ByteBuffer): Int = {
    unpin()
    val index = layout.pageOf(position)
    val passesOn = through != null && through.reaches(position)
    if (!passesOn) endReadThrough()
    if (passesOn && step == ReadAhead.Jump) step = ReadAhead.ReadOn
    if (step == ReadAhead.Jump) callOff(except = index)
    val own = expected(index)
    val found = if (own.isEmpty) reader.find(index) else null
    val span = own.getOrElse(
      if (found == null) reader.plan.span(position, into.remaining.toLong, firstRead) else Request(index, index)
    )
    val isFooter = firstRead && span.last == layout.pages - 1 && index > 0
    firstRead = false
    val requests = if (found != null || passesOn) Vector.empty else reader.missing(span)
    val request = requests.find(_.contains(index)).getOrElse(Request(index, index))
    val admitted = found == null && !passesOn &&
      (own.nonEmpty || isFooter || requests.isEmpty || admits(span, into.remaining.toLong))
    if (admitted) prefetches ++= reader.prefetch(requests.filter(_ != request), prefetches.size)
    goOn(span.last, if (isFooter) ReadAhead.Jump else step)
    step = ReadAhead.SameRead
    if (found != null) {
      pin(index, found)
      0
    } else if (passesOn || (own.isEmpty && scans && readAhead.passes)) pass(index, into)
    else if (admitted) fetch(request, into)
    else passAlone(index, into)
  }

  /** Whether the pages of a read from the position are to be kept, unless the object is read through. */
  private def admits(span: Request, remaining: Long): Boolean = {
    val wanted = if (isSmall && readAhead.expectsMore) layout.length else math.min(remaining, layout.length - position)
    // Who reads a part of a small object, here and there, comes back for the rest.
    (isSmall && wanted < layout.length) || reader.admits(span, wanted, wanted)
  }

  private def isSmall: Boolean = layout.pages <= ReadPlan.SmallObjectPages

  /** Whether the object is read through; a small one comes whole to anybody. */
  private def scans: Boolean = readAhead.scans && !isSmall

  /** Reads from the response on its way, or from a new one for all that follows. */
  private def pass(index: Long, into: ByteBuffer): Int =
    try {
      if (through == null) {
        val (next, wanted) = readAhead.readThrough(index)
        readAhead = next
        through = reader.openThrough(wanted, position, if (keepsScan) Kept else Straight)
      }
      passOn(index, into)
    } catch { case _: RangeNotSatisfiableEOFException => -1 }

  private def take(index: Long): Int =
    through.take(index) match {
      case null => -1
      case taken =>
        pin(index, taken)
        if (position < pageEnd) 0 else -1
    }

  /** Reads what is wanted and hardly more by a request of its own, of which nothing is kept. */
  private def passAlone(index: Long, into: ByteBuffer): Int =
    try {
      val wanted = math.max(into.remaining.toLong, readAhead.readsOver(reader.plan.shortestSeek))
      through =
        // An object that comes whole can be compared with its tag before any of it is given out.
        if (layout.pages == 1)
          reader.readThrough(0, layout.length, if (into.remaining == layout.length) Straight else Held)
        else
          reader.readThrough(position, if (isSmall) layout.length else layout.length.min(position + wanted), Straight)
      passOn(index, into)
    } catch { case _: RangeNotSatisfiableEOFException => -1 }

  private def passOn(index: Long, into: ByteBuffer): Int =
    if (through.use != Straight) take(index)
    else {
      val n = through.read(position, into)
      position += n
      if (n > 0) n else -1
    }

  private def endReadThrough(): Unit =
    if (through != null) {
      through.close()
      through = null
    }

  /** What the reader must fetch itself, although it was to come ahead. */
  private def expected(index: Long): Option[Request] = {
    prefetches = prefetches.filter(_.request.last >= index)
    prefetches.find(_.request.contains(index)).flatMap { ahead =>
      val own = ahead.await(index)
      if (own.isEmpty && !reader.has(index)) readAhead = readAhead.pointless
      own
    }
  }

  private def goOn(index: Long, by: ReadAhead.Step): Unit = {
    val (next, more) = readAhead.enter(index, by)
    readAhead = next
    for (span <- more) {
      val requests = reader.missingInScan(span)
      keepsScan = reader.admitsScan(requests)
      if (keepsScan && reader.hasRoom(prefetches.map(_.request) ++ requests))
        prefetches ++= reader.prefetch(requests, prefetches.size)
      else if (requests.nonEmpty) readAhead = readAhead.pointless
    }
  }

  private def fetch(request: Request, into: ByteBuffer): Int = {
    val until = math.min(position + into.remaining, layout.end(request.last))
    into.limit(into.position() + (until - position).toInt)
    // A page that is read to its end now is not needed once more.
    def neededAgain(index: Long) = layout.start(index) <= until && until < layout.end(index) && !reader.has(index)
    val sink = new CopySink(layout, new Wanted(layout, position, into), neededAgain)
    try reader.fetch(request, scans, sink, () => false)
    catch { case _: RangeNotSatisfiableEOFException => sink.end = position }
    val n = (math.min(until, sink.end) - position).toInt
    if (sink.data != null) pin(sink.page, new FetchedPage(sink.data, sink.length, PageBuffers.of(layout.pageSize)))
    position += math.max(n, 0)
    if (n > 0) n else -1
  }

  private def pin(index: Long, found: Page): Unit = {
    page = found
    pageStart = layout.start(index)
    pageEnd = pageStart + found.length
  }

  private def unpin(): Unit =
    if (page != null) {
      page.close()
      page = null
    }

  private def callOff(except: Long): Unit = {
    val (kept, stopped) = prefetches.partition(_.request.contains(except))
    stopped.foreach(_.stop())
    prefetches = kept
  }

  /** Holds nothing any more; reading on is possible. */
  def release(): Unit = {
    unpin()
    endReadThrough()
    callOff(except = -1)
  }
}

/** A page that no tier has kept. */
final private class FetchedPage(data: Array[Byte], override val length: Int, buffers: PageBuffers) extends Page {

  override def read(position: Int, into: Array[Byte], offset: Int, length: Int): Boolean = {
    Counters.BytesFromStore.add(length.toLong)
    System.arraycopy(data, position, into, offset, length)
    true
  }

  override def read(position: Int, into: ByteBuffer): Boolean = {
    Counters.BytesFromStore.add(into.remaining.toLong)
    into.put(data, position, into.remaining)
    true
  }

  override def close(): Unit = buffers.give(data)
}

/**
 * Arrays of one page, used again by all streams of this JVM. Taking never waits; at most [[PageBuffers.Kept]] idle ones
 * of a size are kept.
 */
final private[read] class PageBuffers private (size: Int) {

  private val idle = new ArrayBlockingQueue[Array[Byte]](PageBuffers.Kept)

  def take(): Array[Byte] = {
    val one = idle.poll()
    if (one == null) new Array[Byte](size) else one
  }

  /** The caller must not use `buffer` again. */
  def give(buffer: Array[Byte]): Unit = idle.offer(buffer)
}

private[read] object PageBuffers {

  val Kept = 16

  private val bySize = new ConcurrentHashMap[Int, PageBuffers]

  def of(size: Int): PageBuffers = bySize.computeIfAbsent(size, new PageBuffers(_))
}
