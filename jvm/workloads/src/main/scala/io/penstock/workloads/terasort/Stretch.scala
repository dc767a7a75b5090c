package io.penstock.workloads.terasort

import java.io.InputStream

/** Two neighbours in the wrong order: `record` is the number of the second one in its file. */
final case class Disorder(file: String, record: Long, before: Key, after: Key) {
  override def toString: String = s"$file: record $record has the key $after, after $before"
}

/** What there is to know of some consecutive records to check them together with their neighbours. */
final case class Stretch(split: Split, tally: Tally, first: Option[Key], last: Option[Key], disorder: Option[Disorder])

object Stretch {

  /** Of the records of `split`, which `in` gives. */
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
