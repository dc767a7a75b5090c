package io.penstock.fs.cache

import java.util.Locale
import java.util.concurrent.atomic.AtomicLong

import scala.annotation.tailrec

import org.apache.hadoop.conf.Configuration

/**
 * Whether pages that a reader needs are fetched whole and kept, or their bytes go straight to the reader. Pure.
 *
 * Keeping a page costs a copy, and the fetch of what nobody has asked for; it saves the next readers a request. So what
 * is read once is cheaper without, unless the store is slow or each request to it is a journey.
 */
private[cache] sealed abstract class AdmissionPolicy(val name: String) {

  /**
   * @param touches
   *   how often each of the pages was read before without being kept
   * @param room
   *   whether the pages find room that is free, or a turn to take that of others which are in use
   */
  def admits(
      touches: Seq[Int],
      read: AdmissionPolicy.Read,
      costs: => AdmissionPolicy.Costs,
      room: => Boolean
  ): Boolean
}

private[cache] object AdmissionPolicy {

  /** Keeps whatever is read: for `cache warm`, and for who knows that everything is read again. */
  case object Always extends AdmissionPolicy("always") {
    override def admits(touches: Seq[Int], read: Read, costs: => Costs, room: => Boolean): Boolean = true
  }

  /** Keeps what is read for the second time, whatever that costs. */
  case object Again extends AdmissionPolicy("again") {
    override def admits(touches: Seq[Int], read: Read, costs: => Costs, room: => Boolean): Boolean = isAgain(touches)
  }

  /**
   * Keeps what is read for the second time from a store that is slower than the tier, and at once what is expected to
   * pay, as far as this process has measured both. Bytes that nobody has asked for are fetched once the reads before
   * would have paid for them: so a reader here and there spends at most twice what the better choice would have cost.
   *
   * Where all that is kept is in use, a page takes the place of one that is as likely to be read again: nothing is
   * gained, and whoever reads more than fits, round and round, would fetch everything and find nothing. So few pages do
   * ([[Turns]]), which is enough to follow a change of work.
   */
  case object Measured extends AdmissionPolicy("measured") {
    override def admits(touches: Seq[Int], read: Read, costs: => Costs, room: => Boolean): Boolean = {
      val measured = costs
      val saved = measured.saved(read)
      def hasShown = saved > 0 && saved * touches.sum / touches.size >= measured.spentOnOthers(read)
      (read.again * saved >= measured.spent(read) || (isAgain(touches) && hasShown)) && room
    }
  }

  /** Of several pages half have been read before. */
  private def isAgain(touches: Seq[Int]): Boolean = touches.count(_ > 0) * 2 >= touches.size

  private val All = Seq(Measured, Again, Always)

  /**
   * What one request of a reader asks for.
   *
   * @param wanted
   *   bytes that the reader has asked for
   * @param kept
   *   bytes of the pages they lie on
   * @param request
   *   bytes of the request that would bring the wanted ones, `wanted` at least: a scan's requests are long
   */
  final case class Read(wanted: Long, kept: Long, request: Long) {

    /**
     * How often as much is expected to be read from these pages, of which nobody has read yet: who reads pieces soon
     * wants their neighbours, and whole pages are seldom read twice. Both are guesses.
     */
    def again: Double = 0.1 + 0.9 * (kept - wanted) / kept.max(1)
  }

  /**
   * @param request
   *   nanoseconds until the store begins an answer
   * @param transfer
   *   nanoseconds a byte of it takes
   * @param writing
   *   nanoseconds a byte takes to be written to the tier
   * @param reading
   *   nanoseconds a byte takes to be read from there
   */
  final case class Costs(request: Double, transfer: Double, writing: Double, reading: Double) {

    /** Nanoseconds by which a read again is cheaper from the tier. */
    def saved(read: Read): Double =
      request * read.wanted / read.request.max(1) + read.wanted * (transfer - reading)

    /** Nanoseconds that keeping the pages takes beyond reading the wanted bytes. */
    def spent(read: Read): Double = spentOnOthers(read) + read.wanted * writing

    /** The part of [[spent]] that goes to bytes which the reader has not asked for. */
    def spentOnOthers(read: Read): Double = (read.kept - read.wanted) * (transfer + writing)
  }

  object Costs {

    /** A store on the same machine and a tier in memory, until something has been measured. */
    val Unmeasured: Costs = Costs(request = 500000, transfer = 1, writing = 0.7, reading = 0.1)
  }

  /** @return left: what is wrong, and what would be right */
  def from(conf: Configuration): Either[String, AdmissionPolicy] = {
    val text = conf.getTrimmed(CacheSettings.Admission, Measured.name)
    All
      .find(_.name == text.toLowerCase(Locale.ROOT))
      .toRight(s"${CacheSettings.Admission}: '$text' is no policy: write ${All.map(_.name).mkString(", ")}")
  }
}

/** Who may take the place of pages in use: one in [[Turns.OneIn]] of those who ask. Thread-safe. */
private[cache] final class Turns {
  private val asked = new AtomicLong

  def next(): Boolean = asked.incrementAndGet() % Turns.OneIn == 0
}

private[cache] object Turns {

  /** Near a store, a page of 1 MiB costs what some six reads of 64 KiB of it do: one in 32 adds a sixth. */
  val OneIn = 32
}

/** How long something takes a byte, over the last [[Pace.Memory]] of them. Thread-safe. */
private[cache] final class Pace {

  private var bytes = 0.0
  private var nanos = 0.0

  def note(count: Long, took: Long): Unit = if (count > 0) synchronized {
    val kept = math.max(0.0, 1 - count / Pace.Memory)
    bytes = bytes * kept + count
    nanos = nanos * kept + took
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
 * up, are not worth writing there, and the tier leaves them to the store.
 *
 * @param fetching
 *   of bytes from the store, waiting for responses included
 * @param nanos
 *   a clock that only goes forward, in nanoseconds
 */
private[cache] final class TierCosts(fetching: Pace, nanos: () => Long) {
  import TierCosts._

  private val written = new Pace
  private val read = new Pace
  private val refused = new AtomicLong

  /** Writes so many bytes. */
  def writing(bytes: Long)(work: => Unit): Unit = timed(written, bytes)(work)

  /** Reads so many bytes, and looks at them. */
  def reading[A](bytes: Long)(work: => A): A = timed(read, bytes)(work)

  /** If it fails, nothing is noted. */
  private def timed[A](pace: Pace, bytes: Long)(work: => A): A = {
    val began = nanos()
    val result = work
    pace.note(bytes, nanos() - began)
    result
  }

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

/**
 * How often pages were read that are not kept: a table of fixed size that all processes of the node share, and that
 * forgets. A count may be lost, or be that of another page with the same fingerprint (one in some four thousand million
 * for each of [[Touches.Ways]] entries looked at): it decides what is kept, never what is read.
 *
 * An entry is a word: 32 bits of fingerprint, 16 of the time it was last touched ([[Touches.UnitSeconds]]), and for
 * each of four neighbouring pages four bits of count.
 *
 * @param clock
 *   seconds, the same for all processes
 */
private[cache] final class Touches(words: SharedWords, clock: () => Int) {
  import Touches._

  private val sets = words.size / (Ways * java.lang.Long.BYTES)

  /** From 0 to 15. */
  def of(key: PageKey, page: Int): Int = {
    val at = find(key)
    if (at < 0) 0 else count(words.get(at), page)
  }

  def add(key: PageKey, page: Int): Unit = {
    val now = time
    val at = find(key)
    if (at >= 0) {
      val old = words.get(at)
      val counts = old & 0xffffL
      val more = if (count(old, page) == Most) counts else counts + (1L << (4 * page))
      words.compareAndSet(at, old, fingerprint(key) << 32 | now << 16 | more): Unit
    } else {
      // Among equals another one goes each time.
      val ways = (0 until Ways).map(way => offset(key, (way + (key.high & 0xff).toInt) % Ways))
      val victim = ways.minBy(at => worth(words.get(at), now))
      val old = words.get(victim)
      words.compareAndSet(victim, old, fingerprint(key) << 32 | now << 16 | (1L << (4 * page))): Unit
    }
  }

  private def time: Long = (clock() / UnitSeconds).toLong & 0xffffL

  /** The entry's offset; -1 if there is none, or only one that is too old to tell anything. */
  private def find(key: PageKey): Int = {
    val (wanted, now) = (fingerprint(key), time)
    @tailrec def look(way: Int): Int =
      if (way == Ways) -1
      else {
        val at = offset(key, way)
        val word = words.get(at)
        if (word >>> 32 == wanted && age(word, now) <= ForgottenAfter) at else look(way + 1)
      }
    look(0)
  }

  private def offset(key: PageKey, way: Int): Int =
    (java.lang.Long.remainderUnsigned(key.low, sets.toLong).toInt * Ways + way) * java.lang.Long.BYTES

  /** Less for what goes first: free entries, then old ones, then those that were touched seldom. */
  private def worth(word: Long, now: Long): Long =
    if (word == 0) Long.MinValue else -age(word, now) * 64 + (0 until 4).map(count(word, _)).sum
}

private[cache] object Touches {

  private val UnitSeconds = 256

  /** Entries that a key may have; the one that says least makes room. */
  private val Ways = 8

  /** Pages with an entry in common. */
  val PagesOfEntry = 4

  private val Most = 15

  /** A day: long enough for a nightly job to find what the last one has read. */
  private val ForgottenAfter = 26L * 3600 / UnitSeconds

  /** Bytes of a table for some 260,000 pages. */
  val Size: Int = 512 * 1024

  private def fingerprint(key: PageKey): Long = (key.high ^ (key.high >>> 32)) & 0xffffffffL

  private def age(word: Long, now: Long): Long = (now - (word >>> 16 & 0xffffL)) & 0xffffL

  private def count(word: Long, page: Int): Int = (word >>> (4 * page) & 0xf).toInt
}
