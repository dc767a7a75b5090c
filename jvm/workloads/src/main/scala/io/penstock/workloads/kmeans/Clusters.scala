package io.penstock.workloads.kmeans

import java.util.SplittableRandom

import scala.collection.mutable.ArrayBuffer

import io.penstock.workloads.Mixed

/**
 * `points` points in `dimensions` dimensions around `clusters` known centres: the truth that training is judged by.
 *
 * Point `i` belongs to centre `i mod clusters` and lies around it with a Gaussian deviation of 1 in every dimension. It
 * depends on `i` and `seed` alone, so the data is the same whatever number of tasks generates it.
 */
case class Clusters(points: Long, dimensions: Int, clusters: Int, seed: Long) {

  /**
   * No two centres are nearer than this. A point lies about √dimensions from its centre; with this distance, the points
   * of all centres that were found weigh less than a fiftieth of those of a single one that was not, when k-means++
   * draws its next centre by squared distance, whatever the number of clusters.
   */
  val separation: Double = 10 * math.sqrt(dimensions.toDouble * clusters)

  /** In a cube with room for each centre, drawn one after the other, those too near to an earlier one drawn again. */
  lazy val centres: Array[Array[Double]] = {
    val side = 2 * separation * math.ceil(math.pow(clusters, 1.0 / dimensions))
    val random = new SplittableRandom(seed)
    val placed = ArrayBuffer.empty[Array[Double]]
    while (placed.size < clusters) {
      val centre = Array.fill(dimensions)(random.nextDouble() * side)
      if (placed.forall(Distance.squared(_, centre) >= separation * separation)) placed += centre
    }
    placed.toArray
  }

  def clusterOf(point: Long): Int = (point % clusters).toInt

  /** How many points belong to each centre. */
  def sizes: Array[Long] =
    Array.tabulate(clusters)(cluster => points / clusters + (if (cluster < points % clusters) 1 else 0))

  def point(index: Long): Array[Float] = {
    val centre = centres(clusterOf(index))
    val random = new SplittableRandom(Mixed(seed, index))
    Array.tabulate(dimensions)(dimension => (centre(dimension) + random.nextGaussian()).toFloat)
  }
}

object Distance {
  def squared(one: Array[Double], other: Array[Double]): Double = {
    var sum = 0.0
    var index = 0
    while (index < one.length) {
      val difference = one(index) - other(index)
      sum += difference * difference
      index += 1
    }
    sum
  }
}
