package io.penstock.skipping.history

import io.penstock.skipping.filter.Keys

/**
 * What queries asked of a column of a table: that it has a value among these keys.
 *
 * @param byJoin
 *   whether the keys are those of the other side of a join, known at run time only, or the query's own literals
 * @param keys
 *   compressed to a few intervals; none where the other side of a join was not seen
 */
case class Condition(column: String, byJoin: Boolean, keys: Option[Keys])

/**
 * Scans of one table that were asked the same.
 *
 * @param table
 *   the root of the table's files, a URI without a slash at its end
 * @param files
 *   those that were read, in all scans together
 * @param bytes
 *   of those files, whole
 */
case class ScanNote(table: String, conditions: Seq[Condition], scans: Long, files: Long, bytes: Long) {

  /** Of the same question. */
  def and(other: ScanNote): ScanNote =
    copy(scans = scans + other.scans, files = files + other.files, bytes = bytes + other.bytes)
}
