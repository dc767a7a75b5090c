package io.penstock.fs.locality

import org.apache.hadoop.fs.BlockLocation

/** Which hosts are to read which stretch of a file, so that a page is kept where it is asked for again. */
object Ranges {

  /**
   * Spark's own largest split of a file (`spark.sql.files.maxPartitionBytes`): Spark cuts small inputs into smaller
   * splits, so that with a smaller range the host of one byte would change with the size of the query.
   */
  val Bytes: Long = 128L << 20

  /** The second one takes over what the first has no free core for, and keeps its pages if the first goes away. */
  val PreferredHosts: Int = 2

  /**
   * The ranges that overlap the bytes from `start` on, at most `length` of them, each with its hosts.
   *
   * @param file
   *   what the ranges are named by, the same in every process
   * @param fileLength
   *   in bytes; nothing is located beyond it
   */
  def locate(ring: HashRing, file: String, fileLength: Long, start: Long, length: Long): Array[BlockLocation] = {
    val end = if (length > fileLength - start) fileLength else start + length
    if (start >= end) Array.empty
    else
      (start / Bytes to (end - 1) / Bytes).map { range =>
        val hosts = ring.preferred(s"$file#$range", PreferredHosts).toArray
        val first = range * Bytes
        new BlockLocation(hosts, hosts, first, Bytes.min(fileLength - first))
      }.toArray
  }
}
