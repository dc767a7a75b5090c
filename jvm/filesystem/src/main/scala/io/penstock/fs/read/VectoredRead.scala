package io.penstock.fs.read

import java.io.{EOFException, IOException}
import java.nio.ByteBuffer
import java.util.concurrent.atomic.{AtomicInteger, AtomicReference}
import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue, RejectedExecutionException}
import java.util.function.{Consumer, IntFunction}
import java.util.{List => JavaList, Objects, Optional}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.{FileRange, PositionedReadable, VectoredReadUtils}

import io.penstock.fs.cache.Page

/**
 * Many ranges at once. Those whose pages are there are complete when [[start]] returns; the others complete as their
 * bytes come, by a few requests at a time in the background: whole pages where those are to be kept, and else, as with
 * S3A's own streams, the ranges alone, those that are near each other with one request, straight into their buffers.
 *
 * A range that fails gives its buffer back, once nobody writes to it any more, and then says so.
 *
 * @param ranges
 *   valid, in ascending order, with their futures
 */
final private[read] class VectoredRead(
    reader: PageReader,
    ranges: Seq[FileRange],
    allocate: IntFunction[ByteBuffer],
    release: Consumer[ByteBuffer],
    stopped: () => Boolean
) {

  private val layout = reader.layout

  /** Which ranges wait for a page. */
  private val waiting = new ConcurrentHashMap[Long, List[Part]]
  private val requests = new ConcurrentLinkedQueue[Task]

  /**
   * @return
   *   how many requests it takes
   * @throws java.io.IOException
   *   if the version is not found out; then no buffer has been taken
   */
  def start(): Int = {
    reader.prepare(pagesOf(ranges))
    val (empty, parts) = ranges.map(new Part(_)).partition(_.isEmpty)
    empty.foreach(_.complete())
    for (part <- parts; index <- part.wanted.first to part.wanted.last) offer(part, index)
    val planned = reader.plan.requests(waiting.keySet.asScala.toSeq.sorted)
    val (kept, others) = planned.partition(admits)
    val pieces = others.flatMap(piecesOf).sortBy(_.from)
    val exact = reader.plan.exact(pieces)
    kept.foreach(request => requests.add(new Whole(request)))
    exact.foreach(one => requests.add(new Exact(one)))
    val count = kept.size + exact.size
    try (1 to math.min(count, reader.active)).foreach(_ => reader.background(() => work()))
    catch { case e: RejectedExecutionException => abandon(new IOException("the file system was closed", e)) }
    count
  }

  private def pagesOf(ranges: Seq[FileRange]): Iterator[Long] =
    for {
      range <- ranges.iterator if range.getLength > 0
      index <- (layout.pageOf(range.getOffset) to layout.pageOf(range.getOffset + range.getLength - 1)).iterator
    } yield index

  private def admits(request: Request): Boolean = {
    val wanted = partsOf(request).map(part => overlap(part, request)).map { case (from, until) => until - from }.sum
    reader.admits(request, wanted, wanted)
  }

  private def partsOf(request: Request): Seq[Part] =
    (request.first to request.last).flatMap(index => Option(waiting.get(index)).getOrElse(Nil)).distinct

  private def overlap(part: Part, request: Request): (Long, Long) =
    (math.max(part.from, layout.start(request.first)), math.min(part.until, layout.end(request.last)))

  /** What ranges want of the pages of a request that are not to be kept; they do not wait for those pages any more. */
  private def piecesOf(request: Request): Seq[Piece] = {
    val pieces = partsOf(request).map { part =>
      val (from, until) = overlap(part, request)
      val pages = (layout.pageOf(from) to layout.pageOf(until - 1)).count(index =>
        Option(waiting.get(index)).exists(_.contains(part))
      )
      new Piece(part, pages, from, until)
    }
    (request.first to request.last).foreach(waiting.remove(_))
    pieces
  }

  private def offer(part: Part, index: Long): Unit = {
    val known = waiting.get(index)
    // A page that has come since the preparation is asked for where a failure harms no buffer.
    val page = if (known == null && !reader.mustAsk) reader.find(index) else null
    val copied =
      page != null && {
        try part.wanted.copy(index, page)
        finally page.close()
      }
    if (copied) part.done() else waiting.put(index, part :: Option(known).getOrElse(Nil))
  }

  /** Sends one request after the other, until none is left. */
  private def work(): Unit = {
    var request = requests.poll()
    while (request != null) {
      request.run()
      request = requests.poll()
    }
  }

  /** Work for one thread in the background. */
  private trait Task extends Runnable {

    /** Fails what the task has not brought yet. */
    def fail(failure: Throwable): Unit
  }

  final private class Whole(request: Request) extends Task {

    override def run(): Unit = fail {
      try {
        reader.fetch(request, scanned = false, Sink, stopped)
        new EOFException("the object ended before the range did")
      } catch { case e: Throwable => e }
    }

    override def fail(failure: Throwable): Unit =
      (request.first to request.last).foreach(came(_, _.failed(failure)))
  }

  /** One response for pieces that are near each other, of which each byte goes to its buffer. */
  final private class Exact(pieces: Seq[Piece]) extends Task {

    private var next = 0

    override def run(): Unit =
      try {
        val response = reader.readThrough(pieces.head.from, pieces.last.until, ReadThroughStream.Straight, stopped)
        try
          for (piece <- pieces) {
            fill(piece, response)
            next += 1
            piece.part.done(piece.pages)
          }
        finally response.close()
      } catch { case e: Throwable => fail(e) }

    private def fill(piece: Piece, response: ReadThroughStream): Unit = {
      val into = piece.part.room(piece.from, piece.until)
      while (into.hasRemaining)
        if (response.read(piece.until - into.remaining, into) == 0)
          throw new EOFException("the object ended before the range did")
    }

    override def fail(failure: Throwable): Unit =
      pieces.drop(next).foreach(piece => piece.part.failed(failure, piece.pages))
  }

  private def abandon(failure: IOException): Unit = {
    Iterator.continually(requests.poll()).takeWhile(_ != null).foreach(_.fail(failure))
    waiting.keySet.asScala.toSeq.foreach(came(_, _.failed(failure)))
  }

  /** The page's fate is known: those who wait for it learn it, once. */
  private def came(index: Long, tell: Part => Unit): Unit = {
    val parts = waiting.remove(index)
    if (parts != null) parts.foreach(tell)
  }

  private object Sink extends PageSink {

    override def arrived(index: Long, page: Page): Boolean = {
      val parts = waiting.get(index)
      val whole = parts == null || parts.forall(_.wanted.copy(index, page))
      if (whole) came(index, _.done())
      whole
    }

    override def fetched(index: Long, data: Array[Byte], length: Int): Boolean = {
      if (length == layout.size(index))
        came(
          index,
          part => {
            part.wanted.copy(index, data, length)
            part.done()
          }
        )
      false
    }
  }

  /** The bytes of a range that come with one response. */
  final private class Piece(val part: Part, val pages: Int, val from: Long, val until: Long) extends ReadPlan.Stretch

  final private class Part(range: FileRange) {

    val from: Long = range.getOffset
    val until: Long = range.getOffset + range.getLength

    private val buffer = allocate(range.getLength)
    buffer.limit(buffer.position() + range.getLength)

    def isEmpty: Boolean = range.getLength == 0

    lazy val wanted = new Wanted(layout, range.getOffset, buffer)

    private val pagesLeft = new AtomicInteger(if (isEmpty) 0 else (wanted.last - wanted.first + 1).toInt)
    private val failure = new AtomicReference[Throwable]

    /** The part of the buffer for the object's bytes `start` to `end` (exclusive). */
    def room(start: Long, end: Long): ByteBuffer = {
      val base = buffer.position() - from
      buffer.duplicate().limit((base + end).toInt).position((base + start).toInt)
    }

    /** So many more of its pages have been copied. */
    def done(pages: Int = 1): Unit = if (pagesLeft.addAndGet(-pages) == 0) complete()

    /** So many more of its pages will not come. */
    def failed(reason: Throwable, pages: Int = 1): Unit = {
      failure.compareAndSet(null, reason)
      done(pages)
    }

    def complete(): Unit =
      if (failure.get == null) range.getData.complete(buffer)
      else {
        release.accept(buffer)
        range.getData.completeExceptionally(failure.get)
      }
  }
}

/** What every stream does with a vectored read before it reads: its ranges are checked against the object's end. */
private[read] trait VectoredReads extends PositionedReadable {

  /** In bytes. */
  protected def objectLength: Long

  /** Throws an `IOException` once the stream is closed. */
  protected def checkOpen(): Unit

  /** Sets each range's data. The ranges are within the object, apart from each other and in ascending order. */
  protected def readSorted(
      ranges: Vector[FileRange],
      allocate: IntFunction[ByteBuffer],
      release: Consumer[ByteBuffer]
  ): Unit

  override def readVectored(ranges: JavaList[_ <: FileRange], allocate: IntFunction[ByteBuffer]): Unit =
    readVectored(ranges, allocate, VectoredReadUtils.LOG_BYTE_BUFFER_RELEASED)

  override def readVectored(
      ranges: JavaList[_ <: FileRange],
      allocate: IntFunction[ByteBuffer],
      release: Consumer[ByteBuffer]
  ): Unit = {
    checkOpen()
    Objects.requireNonNull(release, "release")
    val sorted = VectoredReadUtils.validateAndSortRanges(ranges, Optional.of(Long.box(objectLength)))
    readSorted(sorted.asScala.toVector, allocate, release)
  }
}
