package io.penstock.fs.read

import java.io.{EOFException, IOException}
import java.nio.ByteBuffer
import java.util.concurrent.atomic.{AtomicInteger, AtomicReference}
import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue, RejectedExecutionException}
import java.util.function.{Consumer, IntFunction}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.FileRange

import io.penstock.fs.cache.Page

/**
 * Many ranges at once. Those whose pages are there are complete when [[start]] returns; the others complete as their
 * pages come, by a few requests at a time in the background.
 *
 * A range that fails gives its buffer back, once nobody writes to it any more, and then tells.
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
  private val requests = new ConcurrentLinkedQueue[Request]

  /**
   * @return
   *   how many requests it takes
   * @throws java.io.IOException
   *   if the version cannot be told; then no buffer has been taken
   */
  def start(): Int = {
    reader.prepare()
    val (empty, parts) = ranges.map(new Part(_)).partition(_.isEmpty)
    empty.foreach(_.complete())
    for (part <- parts; index <- part.wanted.first to part.wanted.last) offer(part, index)
    val planned = reader.plan.requests(waiting.keySet.asScala.toSeq.sorted)
    requests.addAll(planned.asJava)
    try (1 to math.min(planned.size, reader.active)).foreach(_ => reader.background(() => work()))
    catch { case e: RejectedExecutionException => abandon(new IOException("the file system was closed", e)) }
    planned.size
  }

  private def offer(part: Part, index: Long): Unit = {
    val known = waiting.get(index)
    val page = if (known == null) reader.find(index) else null
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
      val failure =
        try {
          reader.fetch(request, scanned = false, Sink, stopped)
          new EOFException("the object ended before the range did")
        } catch { case e: Throwable => e }
      (request.first to request.last).foreach(came(_, _.failed(failure)))
      request = requests.poll()
    }
  }

  private def abandon(failure: IOException): Unit = {
    requests.clear()
    waiting.keySet.asScala.toSeq.foreach(came(_, _.failed(failure)))
  }

  /** The page's fate is known: those who wait for it are told, once. */
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

  final private class Part(range: FileRange) {

    private val buffer = allocate(range.getLength)
    buffer.limit(buffer.position() + range.getLength)

    def isEmpty: Boolean = range.getLength == 0

    lazy val wanted = new Wanted(layout, range.getOffset, buffer)

    private val pagesLeft = new AtomicInteger(if (isEmpty) 0 else (wanted.last - wanted.first + 1).toInt)
    private val failure = new AtomicReference[Throwable]

    /** One more of its pages has been copied. */
    def done(): Unit = if (pagesLeft.decrementAndGet() == 0) complete()

    /** One more of its pages will not come. */
    def failed(reason: Throwable): Unit = {
      failure.compareAndSet(null, reason)
      done()
    }

    def complete(): Unit =
      if (failure.get == null) range.getData.complete(buffer)
      else {
        release.accept(buffer)
        range.getData.completeExceptionally(failure.get)
      }
  }
}
