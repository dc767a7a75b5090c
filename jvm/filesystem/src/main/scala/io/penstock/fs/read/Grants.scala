package io.penstock.fs.read

import java.nio.ByteBuffer

import scala.collection.mutable

import io.penstock.fs.cache.Claim

/** The claims one fetch holds. Each is filled or abandoned exactly once, whatever happens. */
final private[read] class Grants {

  private val held = mutable.LinkedHashMap.empty[Long, Claim.Granted]
  private var lowest = Long.MaxValue
  private var highest = Long.MinValue

  def add(page: Long, claim: Claim.Granted): Unit = {
    held(page) = claim
    lowest = math.min(lowest, page)
    highest = math.max(highest, page)
  }

  /** The pages that were granted, with those in between that were not. */
  def request: Request = Request(lowest, highest)

  def fill(page: Long, data: ByteBuffer): Unit = held.remove(page).foreach(_.fill(data))

  /** After `work`, which fills what it can, nothing is held any more. */
  def releasedAfter(work: => Unit): Unit =
    try work
    finally {
      held.values.foreach(_.abandon())
      held.clear()
    }
}
