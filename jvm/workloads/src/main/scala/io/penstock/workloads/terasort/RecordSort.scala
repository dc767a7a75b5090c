package io.penstock.workloads.terasort

import java.io.InputStream

/**
 * The order of a buffer's records by their keys.
 *
 * Records stay where they are. What is sorted is an array of longs: as many leading bits of the key as fit, and below
 * them the record's place in the buffer. Keys of one partition have their first bits in common, so the smallest key is
 * subtracted and the rest shifted up: all bits that are there then distinguish. Three passes of a radix sort of 11 bits
 * leave runs of equal bits; nearly all of one record where keys are random, and sorted by the bits that follow where
 * they are not. So no distribution of keys makes it quadratic.
 */
final class RecordSort private (buffer: RecordBuffer) {
  import RecordSort._

  private val count = buffer.count
  private val placeBits = 64 - java.lang.Long.numberOfLeadingZeros(math.max(1, count - 1).toLong)
  private val placeMask = (1L << placeBits) - 1
  private var entries = Array.tabulate(count)(_.toLong)
  private var scratch = new Array[Long](count)

  private def place(entry: Long): Int = (entry & placeMask).toInt

  private def order(): Array[Int] = {
    sort(0, count)
    scratch = null
    val places = new Array[Int](count)
    for (index <- 0 until count) places(index) = place(entries(index))
    entries = null
    places
  }

  private def sort(from: Int, until: Int): Unit =
    if (until - from <= FewRecords) insert(from, until)
    else {
      val byPrefix = load(from, until, tails = false) || load(from, until, tails = true)
      // Else all keys are equal.
      if (byPrefix) {
        val sortedBits = radix(from, until)
        sortRuns(from, until, sortedBits)
      }
    }

  /** Puts leading bits of the key's prefix, or else of its tail, above the places; false where these are all equal. */
  private def load(from: Int, until: Int, tails: Boolean): Boolean = {
    var least = -1L
    var most = 0L
    var index = from
    while (index < until) {
      val record = place(entries(index))
      val key = if (tails) buffer.tail(record).toLong else buffer.prefix(record)
      scratch(index) = key
      if (java.lang.Long.compareUnsigned(key, least) < 0) least = key
      if (java.lang.Long.compareUnsigned(key, most) > 0) most = key
      index += 1
    }
    if (least == most) false
    else {
      val shift = java.lang.Long.numberOfLeadingZeros(most - least)
      index = from
      while (index < until) {
        entries(index) = (((scratch(index) - least) << shift) & ~placeMask) | (entries(index) & placeMask)
        index += 1
      }
      true
    }
  }

  /** Sorts by the leading bits, least significant digit first, and returns by how many. */
  private def radix(from: Int, until: Int): Int = {
    val digits = if (until - from <= ManyRecords) 2 else 3
    val counts = Array.ofDim[Int](digits, Radix)
    var index = from
    while (index < until) {
      var digit = 0
      while (digit < digits) {
        counts(digit)(value(entries(index), digit)) += 1
        digit += 1
      }
      index += 1
    }
    var source = entries
    var target = scratch
    for (digit <- digits - 1 to 0 by -1) if (!counts(digit).contains(until - from)) {
      scatter(source, target, from, until, digit, counts(digit))
      val sorted = target
      target = source
      source = sorted
    }
    if (source ne entries) System.arraycopy(source, from, entries, from, until - from)
    digits * DigitBits
  }

  private def scatter(
      source: Array[Long],
      target: Array[Long],
      from: Int,
      until: Int,
      digit: Int,
      counts: Array[Int]
  ): Unit = {
    var next = from
    for (bucket <- 0 until Radix) {
      val size = counts(bucket)
      counts(bucket) = next
      next += size
    }
    var index = from
    while (index < until) {
      val bucket = value(source(index), digit)
      target(counts(bucket)) = source(index)
      counts(bucket) += 1
      index += 1
    }
  }

  /** Digit 0 is the most significant one. */
  private def value(entry: Long, digit: Int): Int = (entry >>> (64 - DigitBits * (digit + 1))).toInt & (Radix - 1)

  private def sortRuns(from: Int, until: Int, sortedBits: Int): Unit = {
    val unsorted = 64 - sortedBits
    var start = from
    while (start < until) {
      val bits = entries(start) >>> unsorted
      var end = start + 1
      while (end < until && entries(end) >>> unsorted == bits) end += 1
      if (end - start > 1) sort(start, end)
      start = end
    }
  }

  private def insert(from: Int, until: Int): Unit =
    for (index <- from + 1 until until) {
      val entry = entries(index)
      var gap = index
      while (gap > from && buffer.compare(place(entries(gap - 1)), place(entry)) > 0) {
        entries(gap) = entries(gap - 1)
        gap -= 1
      }
      entries(gap) = entry
    }
}

object RecordSort {
  private val DigitBits = 11
  private val Radix = 1 << DigitBits

  /** Fewer are sorted by insertion. */
  private val FewRecords = 24

  /** Fewer have mostly different keys after 22 bits. */
  private val ManyRecords = 1 << 13

  /** The places of the records in ascending order of their keys; records of one key stay in the order they are in. */
  def order(buffer: RecordBuffer): Array[Int] = new RecordSort(buffer).order()
}

/** Two neighbours in the wrong order: `record` is the number of the second one in its file. */
final case class Disorder(file: String, record: Long, before: Key, after: Key) {
  override def toString: String = s"$file: record $record has the key $after, after $before"
}

/** The facts of consecutive records that checking them together with their neighbours needs. */
final case class Stretch(split: Split, tally: Tally, first: Option[Key], last: Option[Key], disorder: Option[Disorder])

object Stretch {

  /** Read the records of `split` from `in`. */
  def read(split: Split, in: InputStream): Stretch = {
    val batch = Record.batch()
    var tally = Tally.Empty
    var first = Option.empty[Key]
    var last = Option.empty[Key]
    var disorder = Option.empty[Disorder]
    while (tally.records < split.records) {
      val wanted = math.min(split.records - tally.records, Record.Batch.toLong).toInt * Record.Bytes
      val got = in.readNBytes(batch, 0, wanted)
      if (got < wanted)
        throw new java.io.EOFException(s"${split.file} ended before record ${split.first + split.records}")
      if (first.isEmpty) first = Some(Key.of(batch, 0))
      if (disorder.isEmpty) disorder = firstDisorder(split, tally.records, last, batch, got)
      last = Some(Key.of(batch, got - Record.Bytes))
      tally += Tally.of(batch, got)
    }
    Stretch(split, tally, first, last, disorder)
  }

  private def firstDisorder(split: Split, done: Long, last: Option[Key], batch: Array[Byte], length: Int) = {
    var before = last.getOrElse(Key.of(batch, 0))
    var found = Option.empty[Disorder]
    var at = 0
    while (at < length && found.isEmpty) {
      val key = Key.of(batch, at)
      if (before.compare(key) > 0)
        found = Some(Disorder(split.file, split.first + done + at / Record.Bytes, before, key))
      before = key
      at += Record.Bytes
    }
    found
  }

  /** The first two neighbours in the wrong order, in or between the stretches, which come in the order of the data. */
  def disorder(stretches: Seq[Stretch]): Option[Disorder] = {
    val ends = stretches.scanLeft(Option.empty[Key])((before, stretch) => stretch.last.orElse(before))
    val found = for ((stretch, before) <- stretches.iterator.zip(ends)) yield {
      val seam =
        for (one <- before; next <- stretch.first if one.compare(next) > 0)
          yield Disorder(stretch.split.file, stretch.split.first, one, next)
      seam.orElse(stretch.disorder)
    }
    found.flatten.nextOption()
  }
}
