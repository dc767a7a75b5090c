package io.penstock.fs.cache

import scala.annotation.tailrec

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
