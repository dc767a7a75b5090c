package io.penstock.workloads.terasort

/**
 * The sort benchmark's random numbers (Chris Nyberg's `rand16`, Hadoop's `Random16`): x' = a x + c modulo 2^128, from
 * zero. Record number n is made of the (n + 1)-th of them.
 */
final class RandomNumbers(firstRecord: Long) {
  import RandomNumbers._

  private val start = at(firstRecord)
  private var high = start.high
  private var low = start.low

  /** Of the current record: the number's upper and lower 64 bits. */
  def upper: Long = high
  def lower: Long = low

  /** To the next record. Numbers are kept apart in halves here: this runs once for every 100 bytes generated. */
  def advance(): Unit = {
    val productLow = low * Factor.low
    val productHigh = Unsigned128.upperHalf(low, Factor.low) + high * Factor.low + low * Factor.high
    val sum = productLow + Increment.low
    val carry = if (java.lang.Long.compareUnsigned(sum, productLow) < 0) 1 else 0
    high = productHigh + Increment.high + carry
    low = sum
  }
}

object RandomNumbers {
  private val Factor = Unsigned128(0x2360ed051fc65da4L, 0x4385df649fccf645L)
  private val Increment = Unsigned128(0x4a696d4772617952L, 0x4950202020202001L)

  /** One step of the generator, or several at once: steps are affine functions, and so are their compositions. */
  private final case class Step(factor: Unsigned128, increment: Unsigned128) {
    def twice: Step = andThen(this)
    def andThen(next: Step): Step = Step(factor * next.factor, increment * next.factor + next.increment)
  }

  /** The random number of a record, in as many steps as its number has bits. */
  def at(record: Long): Unsigned128 = {
    require(record >= 0, s"record $record")
    @annotation.tailrec
    def jump(steps: Long, doubled: Step, taken: Step): Step =
      if (steps == 0) taken
      else jump(steps >>> 1, doubled.twice, if ((steps & 1) == 1) taken.andThen(doubled) else taken)
    jump(record + 1, Step(Factor, Increment), Step(Unsigned128.One, Unsigned128.Zero)).increment
  }
}
