package io.penstock.fs.commit

/** Which of the objects below what a job replaces are the old data. Pure: it is given what the store lists. */
private[fs] object Replacing {

  /** The partitions a job has written files to: the directories of its files. */
  def partitions(uploads: Iterable[Upload]): Vector[Location] =
    uploads.iterator.map(upload => Location(upload.bucket, CommitRecord.parent(upload.key))).distinct.toVector

  /** Without those that lie within another. */
  def outermost(scopes: Iterable[Location]): Vector[Location] = {
    val distinct = scopes.toVector.distinct
    distinct.filterNot(inner =>
      distinct.exists(outer => outer != inner && outer.bucket == inner.bucket && inner.key.startsWith(outer.key))
    )
  }

  /**
   * All but the job's own files, the table's directory marker (an empty table is still there), the marker the job is
   * about to write anyway, what running jobs keep below the table (their journals and unfinished output), and its
   * skipping index: its entries are of no use for new files, but which columns it covers is its owner's choice.
   */
  def replaced(
      listed: Iterator[Location],
      table: Location,
      uploads: Iterable[Upload],
      marker: Option[Location]
  ): Vector[Location] = {
    val kept = uploads.iterator.map(_.location).toSet ++ marker + table
    listed.filterNot(old => kept(old) || isWorkingState(old.key)).toVector
  }

  private def isWorkingState(key: String): Boolean =
    isBelow(key, Journal.Directory) || isBelow(key, SkippingIndex) || key.contains("__magic_job-")

  private def isBelow(key: String, directory: String): Boolean =
    key.contains("/" + directory) || key.startsWith(directory)

  /** Of `io.penstock.skipping`. */
  private[fs] val SkippingIndex = "_skipindex/"
}
