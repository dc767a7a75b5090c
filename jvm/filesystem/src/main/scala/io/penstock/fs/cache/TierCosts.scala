package io.penstock.fs.cache

import java.util.concurrent.atomic.AtomicLong

/** How long something takes a byte, over the last [[Pace.Memory]] of them. Thread-safe. */
private[cache] final class Pace {

  private var bytes = 0.0
  private var nanos = 0.0

  def note(count: Long, took: Long): Unit = if (count > 0) synchronized {
    val kept = math.max(0.0, 1 - count / Pace.Memory)
    bytes = bytes * kept + count
    nanos = nanos * kept + took
  }

  /** Does what takes so long for so many bytes; if it fails, nothing is noted. */
  def timed[A](count: Long)(work: => A): A = {
    val began = System.nanoTime
    val result = work
    note(count, System.nanoTime - began)
    result
  }

  /** None before anything was noted. */
  def nanosPerByte: Option[Double] = synchronized(Option.when(bytes > 0)(nanos / bytes))

  override def toString: String = nanosPerByte.fold("an unknown time")(nanos => f"$nanos%.2f ns")
}

private[cache] object Pace {
  private val Memory = 64.0 * 1024 * 1024
}

/** What the store costs, as far as this process has seen. Thread-safe. */
private[cache] final class StoreCosts {

  /** Of bytes, waiting for their responses included. */
  val whole = new Pace

  private val answers = new Pace
  private val bodies = new Pace

  /** An answer began after so long. */
  def answered(nanos: Long): Unit = {
    answers.note(Answer, nanos)
    unread.set(unread.get + nanos)
  }

  /** Bytes of a body came in so long. */
  def fetched(bytes: Long, nanos: Long): Unit = {
    bodies.note(bytes, nanos)
    whole.note(bytes, nanos + unread.getAndSet(0))
  }

  /** Nanoseconds until an answer begins. */
  def request: Option[Double] = answers.nanosPerByte.map(_ * Answer)

  /** Nanoseconds for each byte of a body. */
  def transfer: Option[Double] = bodies.nanosPerByte

  /** Nanoseconds of answers of which no byte has been counted. */
  private val unread = new AtomicLong

  /** An answer weighs as much as these bytes, so that the last hundred or so count. */
  private val Answer = 512L * 1024
}

/**
 * What a page costs in a tier and from the store, as far as this process has seen. A disk may be slower than a store
 * that is near: then pages that nobody has asked the tier for by themselves, those of scans and those that memory gives
 * up, are not worth writing there, and the tier gives way.
 *
 * @param fetching
 *   of bytes from the store, waiting for responses included
 */
private[cache] final class TierCosts(fetching: Pace) {
  import TierCosts._

  private val written = new Pace
  private val read = new Pace
  private val refused = new AtomicLong

  /** Writes so many bytes. */
  def writing(bytes: Long)(work: => Unit): Unit = written.timed(bytes)(work)

  /** Reads so many bytes, and looks at them. */
  def reading[A](bytes: Long)(work: => A): A = read.timed(bytes)(work)

  def pays: Boolean = TierCosts.pays(fetching.nanosPerByte, written.nanosPerByte, read.nanosPerByte)

  /** Whether to write the next page: if it [[pays]], and now and then if not, to see whether it does again. */
  def takesNext(): Boolean = pays || refused.incrementAndGet() % TriesOneOf == 0

  /** Nanoseconds for each byte written, and read. */
  def writing: Option[Double] = written.nanosPerByte
  def reading: Option[Double] = read.nanosPerByte

  override def toString: String = s"a byte takes $fetching to fetch, $written to write and $read to read"
}

private[cache] object TierCosts {

  /** One page in so many is a price that nobody notices. */
  val TriesOneOf = 64

  /** Of the pages that are written, how many are taken to be read again. */
  val ReadAgain = 0.5

  /** Whether what is saved by reading a page from the tier makes up for writing it; what is not known speaks for it. */
  def pays(fetching: Option[Double], writing: Option[Double], reading: Option[Double]): Boolean =
    fetching.forall(fetch => writing.forall(write => (fetch - reading.getOrElse(0.0)) * ReadAgain >= write))
}
