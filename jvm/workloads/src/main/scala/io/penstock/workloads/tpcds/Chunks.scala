package io.penstock.workloads.tpcds

/** The rows (for sales and returns: orders) `first` to `last` of a table, counted from 1, both included. */
case class Chunk(first: Long, last: Long)

object Chunks {

  /** Cuts `rows` rows into at most `count` chunks of sizes that differ by one at most. */
  def split(rows: Long, count: Int): Seq[Chunk] = {
    val chunks = math.max(1L, math.min(rows, count.toLong))
    (0L until chunks).map { index =>
      Chunk(first = bound(rows, chunks, index) + 1, last = bound(rows, chunks, index + 1))
    }
  }

  // 128-bit in effect: rows * index does not fit a Long at the largest scales and chunk counts.
  private def bound(rows: Long, chunks: Long, index: Long): Long =
    (BigInt(rows) * index / chunks).toLong
}
