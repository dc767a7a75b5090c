package io.penstock.fs.cache

import java.nio.ByteBuffer

import io.penstock.fs.Counters

/**
 * The page cache over its tiers: looks a page up in what is mapped already, then in each tier's table; keeps it in the
 * first tier that takes it.
 *
 * @param store
 *   what this process has seen of it
 * @param admission
 *   what it takes of what is read
 */
private[cache] final class TieredPageCache(
    val pageSize: Int,
    tiers: Vector[Tier],
    store: StoreCosts,
    admission: AdmissionPolicy,
    mappedPages: Int
) extends PageCache {

  private val mappings = new Mappings(mappedPages)

  private val claims = new Claims(
    () => tiers.iterator.flatMap(_.locks).nextOption(),
    label => pageOf(lookUp(label)),
    (label, data, scanned) =>
      insert(tiers, label, data, if (scanned) EvictionPolicy.Scanned else EvictionPolicy.Read) != Tier.Refused
  )

  override def keeps: Boolean = tiers.exists(_.keeps)

  override def roomForScan: Long = tiers.map(_.roomForScan).sum

  override def find(of: ObjectIdentity, index: Long): Option[Page] = {
    val mapped = if (exists(of, index)) lookUp(PageLabel(of, index, pageSize)) else null
    (if (mapped == null) Counters.PageMisses else Counters.PageHits).increment()
    Option(pageOf(mapped))
  }

  override def has(of: ObjectIdentity, index: Long): Boolean = {
    val key = of.page(index, pageSize)
    tiers.exists(_.has(key))
  }

  override def claim(of: ObjectIdentity, index: Long, patienceMs: Long): Claim =
    claims.claim(PageLabel(of, index, pageSize), patienceMs)

  override def fetched(bytes: Long, nanos: Long): Unit = store.fetched(bytes, nanos)

  override def answered(nanos: Long): Unit = store.answered(nanos)

  override def admits(of: ObjectIdentity, first: Long, last: Long, wanted: Long, request: Long): Boolean =
    admission == AdmissionPolicy.Always || tiers.find(_.keeps).exists { tier =>
      val touches = (first to last).iterator.map(index => math.min(tier.touches(of, index), 1)).sum
      val kept = math.min(of.length, (last + 1) * pageSize) - first * pageSize
      val read = AdmissionPolicy.Read(wanted, kept, request.max(wanted))
      admission.admits(touches.toDouble / (last - first + 1), read, costsIn(tier))
    }

  private def costsIn(tier: Tier): AdmissionPolicy.Costs = {
    val unmeasured = AdmissionPolicy.Costs.Unmeasured
    AdmissionPolicy.Costs(
      store.request.getOrElse(unmeasured.request),
      store.transfer.getOrElse(unmeasured.transfer),
      tier.costs.flatMap(_.writing).getOrElse(unmeasured.writing),
      tier.costs.flatMap(_.reading).getOrElse(unmeasured.reading)
    )
  }

  override def passed(of: ObjectIdentity, index: Long): Unit =
    if (admission != AdmissionPolicy.Always) {
      Counters.PagesNotKept.increment()
      tiers.find(_.keeps).foreach(_.touched(of, index))
    }

  override def keep(of: ObjectIdentity, index: Long, data: ByteBuffer): Unit = {
    val label = PageLabel(of, index, pageSize)
    // On one tier only: what no room is made for in memory is not worth writing to disk before anybody reads it.
    def kept = insert(tiers.find(_.keeps), label, data, EvictionPolicy.Written) == Tier.Kept
    if (!claims.isFetching(label.key) && !has(of, index) && kept) Counters.PagesWrittenThrough.increment()
  }

  override def rename(from: ObjectIdentity, fromIndex: Long, to: ObjectIdentity, toIndex: Long): Unit = {
    val (old, other) = (PageLabel(from, fromIndex, pageSize), PageLabel(to, toIndex, pageSize))
    // On whichever tier the other name is there already, on another it would be there twice.
    if (tiers.exists(_.has(other.key))) tiers.foreach(_.forget(old.key))
    else tiers.exists(_.rename(old, other)): Unit
  }

  override def forget(of: ObjectIdentity): Unit =
    for (index <- 0L until (of.length + pageSize - 1) / pageSize) {
      val key = of.page(index, pageSize)
      tiers.foreach(_.forget(key))
    }

  /** Gives back what evicted pages still take of this process's memory. */
  def sweep(): Unit = mappings.sweep()

  def tidy(): Unit = tiers.foreach(_.tidy())

  private def exists(of: ObjectIdentity, index: Long): Boolean = index >= 0 && index * pageSize < of.length

  private def insert(
      into: Iterable[Tier],
      label: PageLabel,
      data: ByteBuffer,
      cause: EvictionPolicy.Cause
  ): Tier.Outcome = {
    val key = label.key
    into.iterator.map(_.insert(key, label, data, cause)).find(_ != Tier.Refused).getOrElse(Tier.Refused)
  }

  private def pageOf(mapped: MappedPage): Page = if (mapped == null) null else new TierPage(mapped, mappings)

  private def lookUp(label: PageLabel): MappedPage = {
    val key = label.key
    val known = mappings.pinned(key)
    if (known != null && known.tier.touch(known.slot, key)) known
    else {
      if (known != null) {
        known.unpin()
        mappings.retire(known)
      }
      var page: MappedPage = null
      val each = tiers.iterator
      while (page == null && each.hasNext) page = each.next().map(key, label)
      if (page == null) null else mappings.share(page)
    }
  }
}
