package io.penstock.skipping.fuzz

import scala.util.Random

/** Choices that one number decides: the same seed throws the same again. */
final class Dice(seed: Long) {

  // Neighbouring seeds start alike in java.util.Random: the first throws are thrown away.
  private val random = new Random(seed * 0x9e3779b97f4a7c15L)
  random.nextLong()

  def below(bound: Int): Int = random.nextInt(bound)

  def between(low: Int, high: Int): Int = low + random.nextInt(high - low + 1)

  def chance(probability: Double): Boolean = random.nextDouble() < probability

  def of[A](first: A, more: A*): A = oneOf(first +: more)

  def oneOf[A](all: Seq[A]): A = all(random.nextInt(all.size))

  def some[A](all: Seq[A], atMost: Int): Seq[A] = random.shuffle(all).take(between(1, atMost))

  /** One of these, by their weights; only the chosen one is made. */
  def weighed[A](first: (Int, () => A), more: (Int, () => A)*): A = {
    val all = first +: more
    var left = below(all.map(_._1).sum)
    all.find { case (weight, _) => left -= weight; left < 0 }.get._2()
  }
}

object Dice {

  /** Dice of their own for the n-th of many things, so that each can be made again without the others. */
  def of(seed: Long, n: Int, purpose: String): Dice = new Dice(seed * 1000003 + n * 31L + purpose.hashCode)
}
