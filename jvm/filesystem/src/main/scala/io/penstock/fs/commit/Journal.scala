package io.penstock.fs.commit

/**
 * The order of a table's commits: objects `_penstock_commit/GENERATION` below the table. One with content is a
 * [[CommitRecord]] being carried out; an empty one is finished. At rest there is one, empty.
 *
 * The next generation is created only when the latest is finished, and by a PUT that must not find one, so commits have
 * one order although nobody holds a lock that a dead driver could keep. The latest is never deleted: were it, a driver
 * that has slept since it looked could create its generation a second time. One that sleeps long enough to create a
 * generation that was deleted finds a higher one when it looks again, and knows its record to be void.
 */
final private[commit] class Journal(bucket: Bucket, table: Location) {

  import Journal._

  private val directory = table.key + Directory

  def key(generation: Long): Location = Location(bucket.name, directory + f"$generation%012d")

  /** Ascending. */
  def entries(): Vector[Entry] =
    bucket
      .list(directory)
      .flatMap(listed =>
        generation(listed.key).map(generation => Entry(generation, listed.bytes == 0, listed.modified))
      )
      .toVector

  def latest(): Option[Entry] = entries().lastOption

  /** None where the generation is finished, or superseded and gone. */
  def read(generation: Long): Option[CommitRecord] = {
    val at = key(generation)
    bucket.read(at.key).filter(_.nonEmpty).map(CommitRecord.read(_, at))
  }

  /** Whether the generation now holds this very record. */
  def append(generation: Long, record: CommitRecord): Boolean =
    bucket.create(key(generation).key, CommitRecord.write(record)) || holds(generation, record)

  def holds(generation: Long, record: CommitRecord): Boolean = read(generation).exists(_.job == record.job)

  /** Nothing is left to do for this generation; those before it are no longer needed. */
  def finish(generation: Long, superseded: Seq[Long]): Unit = {
    bucket.write(key(generation).key, Array.emptyByteArray)
    if (superseded.nonEmpty) bucket.delete(superseded.map(key(_).key))
  }

  /** Takes back a record that is void because a later generation exists. */
  def withdraw(generation: Long): Unit = bucket.delete(Seq(key(generation).key))
}

private[commit] object Journal {

  /** Spark, Hive and other readers take names that begin with an underscore for no data. */
  val Directory = "_penstock_commit/"

  final case class Entry(generation: Long, finished: Boolean, modified: Long)

  /** Of a key of the journal. */
  def generation(key: String): Option[Long] = key.substring(key.lastIndexOf('/') + 1).toLongOption

  /** The table that a key belongs to the journal of. */
  def tableOf(bucket: String, key: String): Option[Location] = {
    val directory = CommitRecord.parent(key)
    if (directory == Directory || directory.endsWith("/" + Directory))
      generation(key).map(_ => Location(bucket, directory.stripSuffix(Directory)))
    else None
  }
}
