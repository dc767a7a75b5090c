package io.penstock.workloads

/**
 * Two numbers mixed into one whose bits look random: what generated data draws from, so that each row depends on its
 * own number alone. The mixing function is the finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable
 * pseudorandom number generators, 2014).
 */
object Mixed {

  private val GoldenGamma = 0x9e3779b97f4a7c15L

  def apply(seed: Long, number: Long): Long = finish(finish(seed + GoldenGamma) + number * GoldenGamma)

  /** From 0 to `bound` - 1. */
  def below(bound: Int, seed: Long, number: Long): Int =
    java.lang.Long.remainderUnsigned(apply(seed, number), bound).toInt

  private def finish(value: Long): Long = {
    val once = (value ^ (value >>> 30)) * 0xbf58476d1ce4e5b9L
    val twice = (once ^ (once >>> 27)) * 0x94d049bb133111ebL
    twice ^ (twice >>> 31)
  }
}
