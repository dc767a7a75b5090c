package io.penstock.skipping.index

/**
 * What became of an index.
 *
 * @param listed
 *   files of the table
 * @param read
 *   files that were read for it now
 * @param obsolete
 *   entries of files that are gone or were replaced
 * @param unreadable
 *   files of which nothing is known, each with the reason; each refresh tries them again
 * @param unsettled
 *   files that were written at this very moment, and are left to the next refresh
 */
case class Change(
    listed: Int,
    read: Long,
    obsolete: Int,
    unreadable: Seq[FileScan.Unreadable],
    unsettled: Int
)
