package io.penstock.workloads.kmeans

import org.apache.spark.rdd.RDD

/**
 * Points one after the other in one array: thousands of points are one object to the garbage collector and to the cache
 * that keeps them between iterations.
 */
case class PointBlock(values: Array[Float], dimensions: Int) {

  def size: Int = values.length / dimensions

  def point(index: Int): Array[Double] =
    Array.tabulate(dimensions)(dimension => values(index * dimensions + dimension).toDouble)

  /** A number that depends on the point alone, so that what is drawn by it does not depend on how points are spread. */
  def hash(index: Int): Long = {
    var hash = 1L
    var at = index * dimensions
    while (at < (index + 1) * dimensions) {
      hash = 31 * hash + java.lang.Float.floatToIntBits(values(at))
      at += 1
    }
    hash
  }
}

object PointBlock {

  private val PointsPerBlock = 4096

  def blocks(points: Iterator[Array[Float]], dimensions: Int): Iterator[PointBlock] =
    points.grouped(PointsPerBlock).map { group =>
      val values = new Array[Float](group.size * dimensions)
      var at = 0
      group.foreach { point =>
        require(point.length == dimensions, s"a point of ${point.length} dimensions among points of $dimensions")
        System.arraycopy(point, 0, values, at, dimensions)
        at += dimensions
      }
      PointBlock(values, dimensions)
    }
}

/** Centres laid out for finding the nearest one to a point. */
class Centres(val points: Array[Array[Double]]) extends Serializable {

  val count: Int = points.length
  val dimensions: Int = points.head.length

  // By dimension: the innermost loop then adds to independent sums, which the compiler makes vector instructions of.
  private val byDimension = Array.tabulate(dimensions, count)((dimension, centre) => points(centre)(dimension))

  /** Fills `distances` with the squared distances of a point and returns the index of the nearest centre. */
  def nearest(block: PointBlock, index: Int, distances: Array[Double]): Int = {
    java.util.Arrays.fill(distances, 0.0)
    var dimension = 0
    while (dimension < dimensions) {
      val value = block.values(index * dimensions + dimension).toDouble
      val of = byDimension(dimension)
      var centre = 0
      while (centre < count) {
        val difference = of(centre) - value
        distances(centre) += difference * difference
        centre += 1
      }
      dimension += 1
    }
    var best = 0
    var centre = 1
    while (centre < count) {
      if (distances(centre) < distances(best)) best = centre
      centre += 1
    }
    best
  }
}

/** Sums over the points nearest to each centre; `cost` is the sum of the squared distances to their centres. */
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
