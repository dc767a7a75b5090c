package io.penstock.workloads.kmeans

import org.apache.spark.rdd.RDD

/** What the points nearest to each centre add up to; `cost` is the sum of the squared distances to their centres. */
class Assignment(val sums: Array[Array[Double]], val counts: Array[Long], var cost: Double) extends Serializable {

  def add(other: Assignment): Assignment = {
    for (centre <- counts.indices) {
      counts(centre) += other.counts(centre)
      for (dimension <- sums(centre).indices) sums(centre)(dimension) += other.sums(centre)(dimension)
    }
    cost += other.cost
    this
  }

  /** The means; a centre no point is nearest to stays where it was. */
  def means(before: Array[Array[Double]]): Array[Array[Double]] = before.zipWithIndex.map { case (centre, index) =>
    if (counts(index) == 0) centre else sums(index).map(_ / counts(index))
  }
}

object Assignment {

  def of(blocks: RDD[PointBlock], centres: Array[Array[Double]]): Assignment = {
    val shared = blocks.sparkContext.broadcast(new Centres(centres))
    try blocks.mapPartitions(within => Iterator.single(assign(within, shared.value))).treeReduce(_ add _)
    finally shared.destroy()
  }

  private[kmeans] def assign(blocks: Iterator[PointBlock], centres: Centres): Assignment = {
    val total = empty(centres)
    val distances = new Array[Double](centres.count)
    blocks.foreach { block =>
      var index = 0
      while (index < block.size) {
        val nearest = centres.nearest(block, index, distances)
        val sum = total.sums(nearest)
        var dimension = 0
        while (dimension < block.dimensions) {
          sum(dimension) += block.values(index * block.dimensions + dimension)
          dimension += 1
        }
        total.counts(nearest) += 1
        total.cost += distances(nearest)
        index += 1
      }
    }
    total
  }

  private def empty(centres: Centres): Assignment =
    new Assignment(Array.ofDim[Double](centres.count, centres.dimensions), new Array[Long](centres.count), 0.0)
}
