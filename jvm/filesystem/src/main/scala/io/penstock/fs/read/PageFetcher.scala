package io.penstock.fs.read

import java.io.InterruptedIOException
import java.nio.ByteBuffer

import scala.annotation.tailrec
import scala.collection.mutable

import org.apache.hadoop.fs.s3a.RemoteFileChangedException

import io.penstock.fs.cache.{Claim, ObjectVersion, Page, PageCache}
import io.penstock.fs.metrics.Counters

/** Takes the pages of a fetch; a page may come twice, and in any order. */
private[read] trait PageSink {

  /** Whether pages reach the reader of the stream, and not the cache alone. */
  def givesOut: Boolean = true

  /**
   * Another one had fetched it; the page is closed after the call.
   *
   * @return
   *   false if it is damaged, so that it must come again
   */
  def arrived(index: Long, page: Page): Boolean

  /**
   * It came from the store; `length` is short if the object ends there, and then no page behind it comes.
   *
   * @return
   *   whether `data` now belongs to the sink; else it is used again after the call
   */
  def fetched(index: Long, data: Array[Byte], length: Int): Boolean
}

private[read] object PageSink {

  /** For pages that are fetched for the cache alone. */
  object Cache extends PageSink {
    override def givesOut: Boolean = false
    override def arrived(index: Long, page: Page): Boolean = true
    override def fetched(index: Long, data: Array[Byte], length: Int): Boolean = false
  }
}

/**
 * Brings missing pages from the store into the cache and to those who wait for them.
 *
 * One request is sent for as many pages as this fetch is granted the claims on, in a row. Only the first claim is
 * waited for, and never while another is held: no two fetches, of this process or any other, can wait for each other. A
 * fetch holds one page in memory at a time.
 */
final private[read] class PageFetcher(
    source: ObjectSource,
    cache: PageCache,
    plan: ReadPlan,
    resolver: VersionResolver,
    tags: EtagVerifier
) {

  private val layout = plan.layout
  private val buffers = PageBuffers.of(layout.pageSize)

  /**
   * @param demanded
   *   every page of the request comes to `sink`, even if that means fetching one that another is fetching too slowly;
   *   otherwise pages that another has fetched or is fetching are left out, and those behind one that no tier takes
   * @param scanned
   *   whether a reader of the whole object wants them
   * @param stopped
   *   asked now and then: whether nobody wants the pages any more
   * @throws java.io.IOException
   *   what S3A's streams throw; pages before the failure have come
   */
  def fetch(request: Request, demanded: Boolean, scanned: Boolean, sink: PageSink, stopped: () => Boolean): Unit = {
    val fetch = new Fetch(demanded, scanned, sink, stopped)
    var next = request.first
    while (next <= request.last) {
      if (stopped()) throw new InterruptedIOException("the stream was closed or unbuffered meanwhile")
      next = resolver.pages() match {
        case null => fetch.unnamed(Request(next, request.last))
        case of => fetch.claimed(of, Request(next, request.last))
      }
    }
  }

  /**
   * Opens a response for these bytes, of the version that the stream reads, from which the reader takes them himself.
   *
   * @param stopped
   *   asked now and then: whether nobody wants the bytes any more
   * @throws java.io.IOException
   *   what S3A's streams throw
   */
  @tailrec def readThrough(
      from: Long,
      until: Long,
      use: ReadThroughStream.Use,
      stopped: () => Boolean
  ): ReadThroughStream = {
    resolver.pages(): Unit
    open(from, until, resolver.expected, stopped) match {
      case Some(opened) =>
        new ReadThroughStream(layout, cache, resolver, opened, from, until, plan.readOver, use)
      case None => readThrough(from, until, use, stopped)
    }
  }

  /** One call of [[fetch]]. */
  final private class Fetch(demanded: Boolean, scanned: Boolean, sink: PageSink, stopped: () => Boolean) {

    private val plan = if (scanned) PageFetcher.this.plan.forScan else PageFetcher.this.plan

    /** Fetches from the request's first page on; the result is the first page that was not dealt with. */
    def claimed(of: ObjectVersion, request: Request): Long =
      cache.claim(of, request.first, if (demanded) PageFetcher.PatienceMs else 0) match {
        case Claim.Arrived(page) =>
          if (deliver(of, request.first, page)) request.first + 1 else request.first
        case Claim.Busy =>
          if (demanded)
            open(Request(request.first, request.first), Some(of.etag), stopped).fold(request.first) { opened =>
              transfer(opened, new FillLeases): Unit
              request.first + 1
            }
          else request.first + 1
        case first: Claim.Granted =>
          val leases = new FillLeases
          leases.add(request.first, first)
          leases.releasedAfter {
            val next = grantedAtOnce(of, request, leases)
            // The claims are on pages of this version: no other may fill them.
            open(leases.request, Some(of.etag), stopped).fold(request.first) { opened =>
              if (transfer(opened, leases)) next else request.last + 1
            }
          }
      }

    /** Claims what can be had without waiting, up to a gap that is not worth reading over. */
    private def grantedAtOnce(of: ObjectVersion, request: Request, leases: FillLeases): Long = {
      var next = request.first + 1
      var goesOn = true
      while (goesOn && next <= request.last) {
        goesOn = cache.claim(of, next, 0) match {
          case granted: Claim.Granted if plan.joins(leases.request, next) =>
            leases.add(next, granted)
            true
          case granted: Claim.Granted =>
            granted.abandon()
            false
          case Claim.Arrived(page) => deliver(of, next, page)
          case Claim.Busy => false
        }
        if (goesOn) next += 1
      }
      next
    }

    private def deliver(of: ObjectVersion, index: Long, page: Page): Boolean =
      try {
        if (sink.givesOut) resolver.confirmClaim()
        (!sink.givesOut || resolver.givesOut(of)) && sink.arrived(index, page)
      } finally page.close()

    /**
     * Fetches without knowing the version, which the response tells; those who want to learn the same wait for that.
     * Also fetches a version whose pages cannot be kept.
     */
    def unnamed(request: Request): Long = {
      val turn =
        if (resolver.unknown && cache.keeps) cache.claim(resolver.nameless, 0, PageFetcher.PatienceMs) else Claim.Busy
      val leases = new FillLeases
      var transferring = Option.empty[Transfer]
      leases.releasedAfter {
        try {
          resolver.lookAgain()
          if (resolver.pages() == null) {
            transferring = open(request, resolver.expected, stopped)
            transferring.foreach(opened => closedUnless(opened)(claimAll(request, leases)))
          }
        } finally
          turn match {
            case granted: Claim.Granted => granted.abandon()
            case Claim.Arrived(page) => page.close()
            case Claim.Busy => ()
          }
        transferring.foreach(transfer(_, leases))
      }
      if (transferring.isEmpty) request.first else request.last + 1
    }

    /** What fails before anybody reads the response must not leave its connection open. */
    private def closedUnless(opened: Transfer)(work: => Unit): Unit =
      try work
      catch {
        case failure: Throwable =>
          opened.download.close()
          throw failure
      }

    private def claimAll(request: Request, leases: FillLeases): Unit = {
      val of = resolver.pages()
      if (of != null)
        (request.first to request.last).foreach(index =>
          cache.claim(of, index, 0) match {
            case granted: Claim.Granted => leases.add(index, granted)
            case Claim.Arrived(page) => page.close()
            case Claim.Busy => ()
          }
        )
    }

    /** @return false if there is no room for pages that nobody waits for */
    private def transfer(transfer: Transfer, leases: FillLeases): Boolean = {
      import transfer._
      var goesOn = true
      try {
        var page = request.first
        var ended = false
        while (page <= request.last && !ended && goesOn) {
          val buffer = buffers.take()
          var taken = false
          try {
            val wanted = layout.size(page)
            val length = resolver.reading(download.read(buffer, 0, wanted))
            Counters.BytesFetched.add(length.toLong)
            if (length < wanted) ended = true
            else if (leases.refused(page, ByteBuffer.wrap(buffer, 0, length), scanned)) goesOn = demanded
            taken = sink.fetched(page, buffer, length)
          } finally if (!taken) buffers.give(buffer)
          page += 1
        }
      } finally download.close()
      goesOn
    }
  }

  final private class Transfer(val request: Request, val download: ResumingDownload)

  /**
   * Opens a response of the version with this entity tag, or of any.
   *
   * @return
   *   none if the stream does not read that version any more, or not the one that came: then the work is to be done
   *   again
   */
  private def open(request: Request, version: Option[String], stopped: () => Boolean): Option[Transfer] =
    open(layout.start(request.first), layout.end(request.last), version, stopped).map(new Transfer(request, _))

  private def open(
      from: Long,
      until: Long,
      version: Option[String],
      stopped: () => Boolean
  ): Option[ResumingDownload] = {
    val download = new ResumingDownload(source, from, until, version, stopped, tags, cache)
    val answered =
      try Some(download.open())
      catch { case e: RemoteFileChangedException => if (resolver.changed(version)) None else throw e }
    answered.flatMap { present =>
      if (resolver.settle(present)) Some(download)
      else {
        download.close()
        None
      }
    }
  }
}

private object PageFetcher {

  /**
   * How long a page is waited for that another is fetching, before it is fetched once more: longer than a page takes
   * through a slow gateway, much shorter than a gateway that never answers takes to time out.
   */
  val PatienceMs = 5000L
}

/** The claims one fetch holds. Each is filled or abandoned exactly once, whatever happens. */
final private[read] class FillLeases {

  private val held = mutable.LinkedHashMap.empty[Long, Claim.Granted]
  private var lowest = Long.MaxValue
  private var highest = Long.MinValue

  def add(page: Long, claim: Claim.Granted): Unit = {
    held(page) = claim
    lowest = math.min(lowest, page)
    highest = math.max(highest, page)
  }

  /** The pages that were granted, with those in between that were not. */
  def request: Request = Request(lowest, highest)

  /**
   * @param scanned
   *   as [[Claim.Granted.fill]]
   * @return
   *   whether no tier took the page, although it was this fetch's to keep
   */
  def refused(page: Long, data: ByteBuffer, scanned: Boolean): Boolean =
    held.remove(page).exists(claim => !claim.fill(data, scanned))

  /** After `work`, which fills what it can, nothing is held any more. */
  def releasedAfter[A](work: => A): A =
    try work
    finally {
      held.values.foreach(_.abandon())
      held.clear()
    }
}

/**
 * What a reader wants of an object: the bytes from `position`, as many as `into` has room for. The same bytes may be
 * copied more than once, by one thread at a time for each page.
 */
final private[read] class Wanted(layout: Layout, position: Long, into: ByteBuffer) {

  private val base = into.position()
  private val until = position + into.remaining

  val first: Long = layout.pageOf(position)
  val last: Long = layout.pageOf(until - 1)

  /** @return false if the page is damaged */
  def copy(index: Long, page: Page): Boolean =
    overlap(index, layout.end(index)) match {
      case null => true
      case room => page.read(room.from, room.buffer)
    }

  /** @param length bytes of the page that `data` has */
  def copy(index: Long, data: Array[Byte], length: Int): Unit =
    overlap(index, layout.start(index) + length) match {
      case null => ()
      case room =>
        Counters.BytesFromStore.add(room.buffer.remaining.toLong)
        room.buffer.put(data, room.from, room.buffer.remaining)
    }

  final private class Room(val from: Int, val buffer: ByteBuffer)

  private def overlap(index: Long, end: Long): Room = {
    val from = math.max(position, layout.start(index))
    val to = math.min(until, end)
    if (from >= to) null
    else {
      val buffer = into.duplicate()
      buffer.limit(base + (to - position).toInt).position(base + (from - position).toInt)
      new Room((from - layout.start(index)).toInt, buffer)
    }
  }
}

/**
 * Copies what a reader wants out of the pages of its fetch.
 *
 * @param retained
 *   whether the reader needs this page once more, and no tier has kept it
 */
final private[read] class CopySink(layout: Layout, wanted: Wanted, retained: Long => Boolean) extends PageSink {

  /** Where the object ended, if that was before it should have. */
  var end: Long = layout.length

  /** The page that is retained, and its bytes. */
  var page: Long = -1
  var data: Array[Byte] = _
  var length: Int = 0

  override def arrived(index: Long, page: Page): Boolean = wanted.copy(index, page)

  override def fetched(index: Long, data: Array[Byte], length: Int): Boolean = {
    wanted.copy(index, data, length)
    if (length < layout.size(index)) end = layout.start(index) + length
    val takes = retained(index)
    if (takes) {
      page = index
      this.data = data
      this.length = length
    }
    takes
  }
}
