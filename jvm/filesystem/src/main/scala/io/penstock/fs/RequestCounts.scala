package io.penstock.fs

import java.util.concurrent.atomic.LongAdder

/**
 * HTTP requests this JVM has sent to object stores, by kind, since it started: every attempt counts, as the store sees
 * it. Adding never blocks; a reading is not one instant's, but never misses what happened before it.
 */
object RequestCounts {

  /** LIST is a GET on a bucket; the others are the HTTP methods. */
  val Kinds: IndexedSeq[String] = IndexedSeq("GET", "HEAD", "PUT", "POST", "DELETE", "LIST")

  private val adders = Array.fill(Kinds.size)(new LongAdder)
  private val retryAdder = new LongAdder

  private[fs] def add(kind: String): Unit = {
    val index = Kinds.indexOf(kind)
    if (index >= 0) adders(index).increment()
  }

  private[fs] def addRetry(): Unit = retryAdder.increment()

  def now(): Reading = Reading(adders.iterator.map(_.sum).toVector, retryAdder.sum)

  /** Counts in the order of [[Kinds]]; `retries` of them were not the first attempt of their call. */
  final case class Reading(requests: Vector[Long], retries: Long) {

    def +(other: Reading): Reading =
      Reading(requests.zip(other.requests).map { case (a, b) => a + b }, retries + other.retries)
  }

  object Reading {
    val Zero: Reading = Reading(Vector.fill(Kinds.size)(0L), 0L)
  }
}
