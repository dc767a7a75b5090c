package io.penstock.workloads.terasort

import java.math.BigInteger

/** A number modulo 2^128, as the sort benchmark's generator and check sum count. */
final case class Unsigned128(high: Long, low: Long) {

  def +(other: Unsigned128): Unsigned128 = {
    val sum = low + other.low
    val carry = if (java.lang.Long.compareUnsigned(sum, low) < 0) 1 else 0
    Unsigned128(high + other.high + carry, sum)
  }

  def *(other: Unsigned128): Unsigned128 =
    Unsigned128(
      Unsigned128.upperHalf(low, other.low) + high * other.low + low * other.high,
      low * other.low
    )

  /** Hexadecimal without leading zeros, as gensort, valsort and TeraChecksum print it. */
  override def toString: String = new BigInteger("%016x%016x".format(high, low), 16).toString(16)
}

object Unsigned128 {
  val Zero: Unsigned128 = Unsigned128(0, 0)
  val One: Unsigned128 = Unsigned128(0, 1)

  /** The upper 64 bits of the product of two unsigned numbers. */
  def upperHalf(one: Long, other: Long): Long =
    Math.multiplyHigh(one, other) + ((one >> 63) & other) + ((other >> 63) & one)
}
