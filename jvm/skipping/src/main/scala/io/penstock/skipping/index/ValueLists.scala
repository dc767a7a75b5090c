package io.penstock.skipping.index

import scala.collection.mutable

/**
 * The lists of a column's codes in all files, one after the other: they are gone through in the order of the files, and
 * a list that has to be looked for elsewhere in memory takes longer to find than to search.
 *
 * @param values
 *   ascending in each list; not to be changed
 * @param ends
 *   of the files' lists in `values`; a file without a list has an empty one
 */
private[index] final class ValueLists private (val values: Array[Long], ends: Array[Int]) {

  def start(file: Int): Int = if (file == 0) 0 else ends(file - 1)

  def end(file: Int): Int = ends(file)

  def has(file: Int): Boolean = end(file) > start(file)
}

private[index] object ValueLists {

  /** Of the files in the order of their numbers, ascending each; empty for a file without one. */
  def of(lists: Iterator[Array[Long]]): ValueLists = {
    val values = new mutable.ArrayBuilder.ofLong
    val ends = new mutable.ArrayBuilder.ofInt
    var end = 0
    for (list <- lists) {
      values.addAll(list)
      end = math.addExact(end, list.length)
      ends += end
    }
    new ValueLists(values.result(), ends.result())
  }
}
