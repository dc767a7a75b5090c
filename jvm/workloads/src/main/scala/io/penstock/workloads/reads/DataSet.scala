package io.penstock.workloads.reads

import org.apache.hadoop.fs.Path

/**
 * What is read: one large object and many small ones, whose bytes follow from their numbers alone (see `Content`).
 *
 * @param size
 *   of the large one, in bytes
 * @param smallSize
 *   of each small one, in bytes
 */
final case class DataSet(size: Long, smallObjects: Int, smallSize: Long) {

  def bytes: Long = size + smallObjects * smallSize

  def objects: Seq[DataSet.Object] =
    DataSet.Object(0, "large", size) +: (1 to smallObjects).map(n => DataSet.Object(n, f"small/$n%06d", smallSize))
}

object DataSet {

  /** The same everywhere: copies in other places are the same data. */
  val Seed = 4L

  final case class Object(number: Int, name: String, length: Long) {
    def path(location: String): Path = new Path(s"$location/$name")
  }
}
