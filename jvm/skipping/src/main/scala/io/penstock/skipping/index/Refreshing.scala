package io.penstock.skipping.index

import java.util.BitSet

/** What a refresh has to do. Pure: it is given what the index knows and what the store lists. */
private[index] object Refreshing {

  /**
   * @param changed
   *   files that the index does not know as they are
   * @param current
   *   the numbers of the entries that describe a listed file; all others are of no use any more
   */
  case class Comparison(changed: Vector[ListedFile], current: BitSet, entries: Int) {
    def obsolete: Int = entries - current.cardinality
  }

  def compare(known: TableIndex, listed: Vector[ListedFile]): Comparison = {
    val current = new BitSet(known.files)
    val changed = listed.filter { file =>
      val number = known.find(file.directory, file.name, file.length, file.modificationMs)
      if (number >= 0) current.set(number)
      number < 0
    }
    Comparison(changed, current, known.files)
  }

  /** Whether entries are better written anew than left where they are: they are in too many parts, or many obsolete. */
  def isCompactionDue(parts: Int, comparison: Comparison): Boolean =
    parts > MaxParts || comparison.obsolete > math.max(FewEntries, comparison.entries / 4)

  /** More are slow to load. */
  private val MaxParts = 32
  private val FewEntries = 100

  /**
   * How long a file must have stood before it is read, in milliseconds. S3's times are whole seconds by the store's
   * clock: an object that is overwritten in the second in which it was read looks, if its length is the same, as if it
   * had not been. Files of this machine's own have its clock, and times to the millisecond.
   */
  def settlingMs(scheme: String): Long = if (scheme == "file") 100 else 2000

  /**
   * When the youngest of these files can be read, in milliseconds since 1970. One that comes from the future is waited
   * for where a clock that is a little ahead explains it, and left to the next refresh otherwise.
   */
  def settledAt(files: Iterable[ListedFile], now: Long, settlingMs: Long): Long =
    files.iterator.map(_.modificationMs).filter(_ <= now + settlingMs).maxOption.fold(now)(_ + settlingMs)

  def isSettled(file: ListedFile, now: Long, settlingMs: Long): Boolean = file.modificationMs + settlingMs <= now
}
