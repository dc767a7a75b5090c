package io.penstock.workloads.kmeans

import java.util.SplittableRandom

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.rdd.RDD
import org.apache.spark.storage.StorageLevel

import io.penstock.workloads.Mixed

/**
 * The initial centres, chosen by k-means|| (Bahmani et al., Scalable k-means++, 2012). A few passes each draw about two
 * candidates a cluster, by their squared distance from the earlier candidates; k-means++ then chooses among all
 * candidates, weighted by the points nearest to them.
 *
 * The draw depends on the points alone, not on their distribution over tasks, so every cluster size does the same work.
 */
class InitialCentres(blocks: RDD[PointBlock], clusters: Int, passes: Int, seed: Long) {

  private val candidatesPerPass = 2.0 * clusters

  def centres(): Array[Array[Double]] = {
    val candidates = ArrayBuffer(first)
    var nearest = updated(None, candidates.toArray, firstIndex = 0)
    for (pass <- 1 to passes) {
      val cost = nearest.map(_.squared.sum).sum()
      val fresh = drawn(nearest, cost, Mixed(seed, pass))
      if (fresh.nonEmpty) nearest = updated(Some(nearest), fresh, firstIndex = candidates.size)
      candidates ++= fresh
    }
    val weights = nearest.map(_.counts(candidates.size)).treeReduce(Nearest.add)
    nearest.unpersist()
    PlusPlus.choose(candidates.toArray, weights.map(_.toDouble), clusters, Mixed(seed, 0))
  }

  /** One of all points, each as likely as any other. */
  private def first: Array[Double] = {
    val salt = seed
    val (_, point) = blocks
      .map { block =>
        val (hash, index) = (0 until block.size).iterator.map(index => Mixed(salt, block.hash(index)) -> index).min
        hash -> block.point(index)
      }
      .treeReduce((one, other) => if (one._1 <= other._1) one else other)
    point
  }

  /** The nearest of all candidates so far, from what is known and the new ones; kept in the cache. */
  private def updated(known: Option[RDD[Nearest]], fresh: Array[Array[Double]], firstIndex: Int): RDD[Nearest] = {
    val shared = blocks.sparkContext.broadcast(new Centres(fresh))
    val now = known match {
      case None => blocks.map(block => Nearest.nowhere(block.size).closer(block, shared.value, firstIndex))
      case Some(before) =>
        blocks.zip(before).map { case (block, nearest) => nearest.closer(block, shared.value, firstIndex) }
    }
    now.persist(StorageLevel.MEMORY_AND_DISK).count()
    known.foreach(_.unpersist())
    now
  }

  /** Each point with a probability in proportion to its squared distance; sorted, so that their order is one. */
  private def drawn(nearest: RDD[Nearest], cost: Double, salt: Long): Array[Array[Double]] = {
    val factor = if (cost > 0) candidatesPerPass / cost else 0.0
    blocks
      .zip(nearest)
      .flatMap { case (block, distances) =>
        (0 until block.size).iterator
          .filter(index => InitialCentres.uniform(Mixed(salt, block.hash(index))) < factor * distances.squared(index))
          .map(block.point)
      }
      .collect()
      .sorted(InitialCentres.lexicographic)
  }
}

object InitialCentres {

  /** 53 random bits as a number from 0 to 1. */
  private[kmeans] def uniform(bits: Long): Double = (bits >>> 11) / (1L << 53).toDouble

  private val lexicographic: Ordering[Array[Double]] = (one, other) => java.util.Arrays.compare(one, other)
}

/** For each point of a block: which candidate is nearest, and its squared distance. */
case class Nearest(candidate: Array[Int], squared: Array[Double]) {

  /** The nearest candidates after `fresh` ones, numbered from `firstIndex`, were added. */
  def closer(block: PointBlock, fresh: Centres, firstIndex: Int): Nearest = {
    val distances = new Array[Double](fresh.count)
    val candidates = candidate.clone()
    val shortest = squared.clone()
    var index = 0
    while (index < candidates.length) {
      val nearest = fresh.nearest(block, index, distances)
      if (distances(nearest) < shortest(index)) {
        shortest(index) = distances(nearest)
        candidates(index) = firstIndex + nearest
      }
      index += 1
    }
    Nearest(candidates, shortest)
  }

  def counts(candidates: Int): Array[Long] = {
    val counts = new Array[Long](candidates)
    candidate.foreach(counts(_) += 1)
    counts
  }
}

object Nearest {
  def nowhere(size: Int): Nearest = Nearest(new Array[Int](size), Array.fill(size)(Double.PositiveInfinity))

  def add(one: Array[Long], other: Array[Long]): Array[Long] = {
    other.indices.foreach(index => one(index) += other(index))
    one
  }
}

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
