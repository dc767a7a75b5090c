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

  /**
   * @param scanned
   *   as [[Claim.Granted.fill]]
   * @return
   *   whether no tier took the page, although it was this fetch's to keep
   */
  def refused(page: Long, data: ByteBuffer, scanned: Boolean): Boolean =
    held.remove(page).exists(claim => !claim.fill(data, scanned))

  /** After `work`, which fills what it can, nothing is held any more. */
  def releasedAfter[A](work: => A): A =
    try work
    finally {
      held.values.foreach(_.abandon())
      held.clear()
    }
}
