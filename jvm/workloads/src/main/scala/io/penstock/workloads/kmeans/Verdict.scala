package io.penstock.workloads.kmeans

/** Whether training found what was generated: pure judgement on numbers. */
class Verdict(truth: Clusters) {

  import Verdict._

  /**
   * How far a centre found may be from the one generated: the mean of m points with deviation 1 in d dimensions is off
   * by χ²(d)/m, squared.
   */
  val tolerance: Double =
    math.sqrt((truth.dimensions + excess(truth.dimensions)) / truth.sizes.min)

  /** None where each generated centre has exactly one found centre within the tolerance and no other is left. */
  def centres(found: Array[Array[Double]]): Option[String] = {
    val near = truth.centres.map(centre =>
      found.indices.filter(index => math.sqrt(Distance.squared(centre, found(index))) <= tolerance)
    )
    val missed = near.indices.filter(near(_).isEmpty)
    val shared = near.indices.filter(near(_).size > 1)
    val stray = found.indices.diff(near.toSeq.flatten)
    Option.when(missed.nonEmpty || shared.nonEmpty || stray.nonEmpty) {
      s"${missed.size} generated centres were not found, ${shared.size} were found more than once, " +
        s"${stray.size} of those found are near none"
    }
  }

  /** None where as many points are nearest to each centre as were generated around it. */
  def sizes(found: Array[Array[Double]], counts: Array[Long]): Option[String] = {
    val expected =
      found.map(centre => truth.sizes(truth.centres.indices.minBy(i => Distance.squared(centre, truth.centres(i)))))
    val wrong = counts.indices.filter(index => counts(index) != expected(index))
    Option.when(wrong.nonEmpty || counts.sum != truth.points) {
      s"${counts.sum} points of ${truth.points} were read; ${wrong.size} clusters have another size than generated"
    }
  }

  /**
   * None where the cost is that of the generated noise: χ² with one degree of freedom for each number but those the
   * centres took.
   */
  def cost(cost: Double): Option[String] = {
    val freedom = (truth.points - truth.clusters).toDouble * truth.dimensions
    val off = cost / freedom - 1
    val allowed = excess(freedom) / freedom
    Option.when(!(math.abs(off) <= allowed))(s"the cost is off by $off of it; the noise explains $allowed")
  }
}

object Verdict {

  /** A right result is called wrong with a probability of less than e^-30 a centre: once in 10^13. */
  private val Improbable = 30.0

  /**
   * How much more than its mean a χ² of that freedom may be: χ²(d) exceeds d + 2√(dx) + 2x with a probability below
   * e^-x (Laurent and Massart, Adaptive estimation of a quadratic functional by model selection, 2000, lemma 1).
   */
  private def excess(freedom: Double): Double = 2 * math.sqrt(freedom * Improbable) + 2 * Improbable
}
