package io.penstock.fs.cache

import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue}

import scala.annotation.tailrec

/**
 * The pages this process has mapped, so that one that is found again costs no system call.
 *
 * At most `limit` of them (the kernel allows a process 65 530 mappings in all). The memory of a page that has been
 * evicted meanwhile is given back by the second [[sweep]] after that, or the first one after its last reader is done: a
 * reader that closes its page while another of its threads still copies from it finds the memory there.
 */
private[cache] final class Mappings(limit: Int) {

  private val byKey = new ConcurrentHashMap[PageKey, MappedPage]

  // Every mapped page once, and what has been retired since the hand last passed.
  private val ring = new ConcurrentLinkedQueue[MappedPage]
  private val ringSize = new AtomicInteger

  private val retired = new ConcurrentLinkedQueue[MappedPage]
  private val retiredSize = new AtomicInteger

  /** The page with a pin for the caller, or null if it is not mapped. */
  def pinned(key: PageKey): MappedPage = {
    val page = byKey.get(key)
    if (page == null || !page.pin()) null
    else {
      if (!page.recent) page.recent = true
      page
    }
  }

  /** Shares a page just mapped, on which the caller has a pin: it gets the one to use, with a pin. */
  @tailrec def share(page: MappedPage): MappedPage = {
    val first = byKey.putIfAbsent(page.key, page)
    if (first == null) {
      ring.add(page)
      if (ringSize.incrementAndGet() > limit) shrink()
      page
    } else if (first.pin()) {
      page.unpin()
      page.unmap()
      first
    } else share(page)
  }

  /** Nobody finds the page here any more. */
  def retire(page: MappedPage): Unit =
    if (byKey.remove(page.key, page)) {
      retired.add(page)
      if (retiredSize.incrementAndGet() > Mappings.MaxRetired) unmapRetired(1)
    }

  /** Retires what the tiers no longer hold and unmaps what was retired before. */
  def sweep(): Unit = {
    unmapRetired(retiredSize.get)
    byKey.values.forEach(page => if (!page.tier.holds(page.slot, page.key)) retire(page))
  }

  def size: Int = byKey.size

  /** The second chance: a page found since the hand last passed goes round again. */
  private def shrink(): Unit = {
    var page = ring.poll()
    var passed = 0
    while (page != null && page.recent && passed < limit) {
      page.recent = false
      if (byKey.get(page.key) eq page) {
        ring.add(page)
        page = ring.poll()
      }
      passed += 1
    }
    if (page != null) {
      ringSize.decrementAndGet()
      retire(page)
    }
  }

  private def unmapRetired(count: Int): Unit = {
    var left = count
    var page = if (left > 0) retired.poll() else null
    while (page != null) {
      if (page.unmap()) retiredSize.decrementAndGet() else retired.add(page)
      left -= 1
      page = if (left > 0) retired.poll() else null
    }
  }
}

private[cache] object Mappings {

  /** Retired pages beyond this many are unmapped at once: a quarter of the default limit. */
  private val MaxRetired = 4096
}
