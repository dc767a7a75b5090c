package io.penstock.skipping

import java.util.concurrent.atomic.LongAdder

/**
 * What skipping came to in this process since it started: for the summary of an application, whose driver this is.
 *
 * Of one query the plan's own metrics tell more; these sums outlive plans.
 */
object SkippingCounters {

  private val scans, files, filesSkipped, bytes, bytesSkipped, selectNs = new LongAdder

  /**
   * Called once for each scan that was run and whose table has an index.
   *
   * @param files
   *   listed once partitions were pruned, of `bytes` altogether
   * @param selectNs
   *   how long asking the index took
   */
  def scanned(files: Long, filesSkipped: Long, bytes: Long, bytesSkipped: Long, selectNs: Long): Unit = {
    scans.increment()
    this.files.add(files)
    this.filesSkipped.add(filesSkipped)
    this.bytes.add(bytes)
    this.bytesSkipped.add(bytesSkipped)
    this.selectNs.add(selectNs)
  }

  /** By name, in the order they are told; sums that only grow. */
  def now(): Seq[(String, Long)] = Seq(
    "scans" -> scans.sum,
    "files" -> files.sum,
    "files_skipped" -> filesSkipped.sum,
    "bytes" -> bytes.sum,
    "bytes_skipped" -> bytesSkipped.sum,
    "select_us" -> selectNs.sum / 1000
  )
}
