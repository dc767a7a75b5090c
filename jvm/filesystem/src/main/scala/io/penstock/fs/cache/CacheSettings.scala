package io.penstock.fs.cache

import org.apache.hadoop.conf.Configuration

/**
 * The names of the page cache's settings; per bucket as `fs.s3a.bucket.BUCKET.penstock.…`, as all of S3A's.
 *
 * Sizes are bytes, with `K`, `M`, `G`, or a percentage: of the machine's memory for the memory tier, of the file system
 * for the disk tier. A size of 0 turns a tier off.
 */
object CacheSettings {

  private val Prefix = "fs.s3a.penstock.cache."

  val Enabled: String = Prefix + "enabled"
  val PageSize: String = Prefix + "page.size"

  val MemoryDirectory: String = Prefix + "memory.dir"
  val MemorySize: String = Prefix + "memory.size"
  val DiskDirectory: String = Prefix + "disk.dir"
  val DiskSize: String = Prefix + "disk.size"

  /**
   * What is kept of what is read: `measured` (what pays, by what the store and the tiers have been seen to cost),
   * `again` (what is read for the second time) or `always`.
   */
  val Admission: String = Prefix + "admission"

  /** Every open asks the store which version of the object is current, so that there is no window at all. */
  val Strict: String = Prefix + "strict"

  /**
   * For how long a version that was seen under a status is believed to be there (a time, `1m`): what another client has
   * deleted or overwritten since may be read from the cache for so long by who has an old status of it.
   */
  val MaxStaleness: String = Prefix + "max.staleness"

  /**
   * A name for those who may read the same, in place of the access key: pages are given to nobody whose name is
   * another. Without either, as with a role's credentials, pages are given to the file system alone that cached them.
   */
  val Scope: String = Prefix + "scope"

  /** The name of one file system, which it makes up itself: no setting of users', which hold letters alone. */
  private[fs] val Instance: String = Prefix + "instance_id"

  /** What is written leaves its pages behind. */
  val WriteThrough: String = Prefix + "write.through"

  /** The most that reading ahead of a sequential reader fetches with one request. */
  val ReadAhead: String = Prefix + "read.ahead"

  /** What a sequential reader rather fetches once more, though it is here, than begin another request behind it. */
  val ReadOver: String = Prefix + "read.over"

  /** Requests of one vectored read that are on their way at once: S3A's own setting. */
  val ActiveRanges: String = "fs.s3a.vectored.active.ranged.reads"

  def enabled(conf: Configuration): Boolean = conf.getBoolean(Enabled, true)
}
