package io.penstock.workloads.kmeans

import java.util.SplittableRandom

/**
 * k-means++ over weighted points in memory, in its greedy form (Arthur and Vassilvitskii, k-means++: the advantages of
 * careful seeding, 2007): of some points drawn by their squared distance, the one that lowers the cost most.
 */
object PlusPlus {

  /** `count` of the points; where there are fewer distinct ones, some more than once. */
  def choose(points: Array[Array[Double]], weights: Array[Double], count: Int, seed: Long): Array[Array[Double]] = {
    val random = new SplittableRandom(seed)
    // As many as scikit-learn draws.
    val trials = 2 + math.log(count.toDouble).toInt
    var chosen = Vector(points(draw(weights, random)))
    var squared = points.map(Distance.squared(_, chosen.head))
    while (chosen.size < count) {
      val costs = squared.lazyZip(weights).map(_ * _)
      val (best, distances) = Seq
        .fill(trials)(points(draw(costs, random)))
        .map(point =>
          point -> points.lazyZip(squared).map((one, before) => math.min(before, Distance.squared(one, point)))
        )
        .minBy { case (_, after) => after.lazyZip(weights).map(_ * _).sum }
      chosen :+= best
      squared = distances
    }
    chosen.toArray
  }

  /** An index with a probability in proportion to its weight. */
  private def draw(weights: Array[Double], random: SplittableRandom): Int = {
    var left = random.nextDouble() * weights.sum
    val index = weights.indexWhere { weight =>
      left -= weight
      left < 0
    }
    if (index >= 0) index else weights.length - 1
  }
}
