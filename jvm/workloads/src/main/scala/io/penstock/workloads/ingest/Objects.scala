package io.penstock.workloads.ingest

/**
 * The objects of one writer, named so that what should be there follows from how many there are. A writer that began
 * again in another executor is another attempt, with names of its own: nobody's objects are overwritten.
 */
case class Series(writer: Int, attempt: Int) {
  import Series._

  def directory: String = f"writer-$writer%05d-$attempt%02d"

  def folder(index: Long): String = f"$directory/$index%08d"

  def name(sequence: Long): String = f"${folder(sequence / InFolder)}/$sequence%010d"

  /** The number that an object's content is made from: no two objects share one. */
  def content(sequence: Long): Long = (writer.toLong << 44) | (attempt.toLong << 36) | sequence
}

object Series {

  /** Objects in one folder: what one request lists. */
  val InFolder = 100L

  private val Directory = """writer-(\d{5,9})-(\d{2,9})""".r

  /** None where no writer writes there. */
  def ofDirectory(name: String): Option[Series] = name match {
    case Directory(writer, attempt) => Some(Series(writer.toInt, attempt.toInt)).filter(_.directory == name)
    case _ => None
  }
}

/**
 * A folder to be inspected: the objects numbered below `written` must be there, those from there to below `allowed` may
 * (their PUT failed, which does not say that nothing was stored), and no others.
 */
case class Folder(series: Series, index: Long, written: Long, allowed: Long) {
  private def from = index * Series.InFolder
  private def until(bound: Long): Long = math.max(from, math.min(bound, from + Series.InFolder))

  def path: String = series.folder(index)
  def required: Seq[Long] = from until until(written)
  def optional: Seq[Long] = until(written) until until(allowed)
}

object Folder {

  /** All folders of a series: those that must be there and those that are. */
  def all(series: Series, written: Long, allowed: Long, found: Set[Long]): Seq[Folder] = {
    val needed = 0L until (written + Series.InFolder - 1) / Series.InFolder
    (needed.toSet ++ found).toSeq.sorted.map(Folder(series, _, written, allowed))
  }

  /**
   * Of an attempt whose executor was lost, and with it the count: every folder but the last must be full, and in the
   * last one any number of objects is right.
   */
  def ofLost(series: Series, found: Set[Long]): Seq[Folder] =
    if (found.isEmpty) Nil else all(series, found.max * Series.InFolder, (found.max + 1) * Series.InFolder, found)
}
