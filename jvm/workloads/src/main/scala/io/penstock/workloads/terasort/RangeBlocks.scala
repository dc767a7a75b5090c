package io.penstock.workloads.terasort

import org.apache.spark.Partitioner

/** What a task sends: for each range of keys that it has records of, the range's number and all of those. */
object RangeBlocks {

  def of(buffer: RecordBuffer, ranges: KeyRanges): Iterator[(Int, RecordBlock)] = {
    val count = buffer.count
    val rangeOf = new Array[Int](count)
    val ends = new Array[Int](ranges.count)
    var record = 0
    while (record < count) {
      val range = ranges.of(buffer.prefix(record), buffer.tail(record))
      rangeOf(record) = range
      ends(range) += 1
      record += 1
    }
    val starts = ends.scanLeft(0)(_ + _)
    System.arraycopy(starts, 0, ends, 0, ends.length)
    val order = new Array[Int](count)
    record = 0
    while (record < count) {
      val range = rangeOf(record)
      order(ends(range)) = record
      ends(range) += 1
      record += 1
    }
    for (range <- ends.indices.iterator if ends(range) > starts(range))
      yield (range, new Gathered(buffer, order, starts(range), ends(range)))
  }
}

/** Keys are the numbers of partitions already. */
final class ByNumber(override val numPartitions: Int) extends Partitioner {
  override def getPartition(key: Any): Int = key.asInstanceOf[Int]
}
