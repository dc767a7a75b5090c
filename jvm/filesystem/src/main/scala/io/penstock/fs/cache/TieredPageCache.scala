package io.penstock.fs.cache

import java.io.IOException
import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Path
import java.security.MessageDigest
import java.util.concurrent.{ConcurrentHashMap, Executors, TimeUnit}
import java.util.{HexFormat, UUID}

import scala.util.control.NonFatal

import org.apache.commons.lang3.concurrent.BasicThreadFactory
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.Constants
import org.slf4j.LoggerFactory

import io.penstock.fs.credentials.CredentialIdentity
import io.penstock.fs.metrics.Counters

/** The page caches of this process: one for each set of settings, for as long as the process lives. */
object PageCaches {

  private val log = LoggerFactory.getLogger(getClass)

  /** A quarter of the mappings that the kernel allows a process (`vm.max_map_count`): others map files too. */
  private val MappedPages = 16384

  private val SweepSeconds = 2L
  private val TidySeconds = 60L

  private val caches = new ConcurrentHashMap[(Vector[TierSettings], AdmissionPolicy), TieredPageCache]
  private val problems = ConcurrentHashMap.newKeySet[String]

  /** Buckets whose users' identity is unknown, as was logged. */
  private val unknown = ConcurrentHashMap.newKeySet[String]

  private lazy val housekeeper = Executors.newSingleThreadScheduledExecutor(
    BasicThreadFactory.builder().namingPattern("penstock-pages").daemon(true).build()
  )

  /**
   * The cache that these settings ask for, as far as it is theirs ([[ScopedPageCache]]); none if they turn it off, or
   * make no sense, which is logged once. Never throws, nor waits for the tiers: whether they work is seen at the first
   * use. Sends no request, but may read files of credentials: ask once for each file system.
   *
   * @param conf
   *   the bucket's, as S3A has completed it
   */
  def of(conf: Configuration, bucket: String): Option[PageCache] = open(conf, scopeOf(conf, bucket))

  /** The same for nobody's pages, such as to have the tiers open before anything is timed. */
  def of(conf: Configuration): Option[PageCache] = open(conf, ScopedPageCache.aloneScope(conf))

  private def open(conf: Configuration, scope: => String): Option[PageCache] =
    if (!CacheSettings.enabled(conf)) None
    else
      try
        TierSettings.from(conf).flatMap(tiers => AdmissionPolicy.from(conf).map(tiers -> _)) match {
          case Right((tiers, _)) if tiers.isEmpty => None
          case Right(settings) =>
            Some(new ScopedPageCache(caches.computeIfAbsent(settings, start), scope))
          case Left(problem) => refuse(problem)
        }
      catch { case NonFatal(failure) => refuse(failure.toString) }

  private def scopeOf(conf: Configuration, bucket: String): String =
    ScopedPageCache.scopeOf(conf, bucket).getOrElse {
      if (unknown.add(bucket))
        log.warn(
          "Cached pages of {} are not shared with other applications: only a request shows whose credentials are in " +
            "use (source: {}); to share pages among users with the same rights, set {} to a name for them",
          bucket,
          conf.getTrimmed(Constants.AWS_CREDENTIALS_PROVIDER, ""),
          CacheSettings.Scope
        )
      ScopedPageCache.aloneScope(conf)
    }

  /**
   * Where this machine keeps what belongs beside pages: each tier's directory, memory first, made private; those that
   * cannot be are left out. None if the cache is off.
   */
  def directories(conf: Configuration): Vector[Path] =
    if (!CacheSettings.enabled(conf)) Vector.empty
    else TierSettings.from(conf).toSeq.flatten.map(_.directory).filter(isOwn).toVector

  private def isOwn(directory: Path): Boolean =
    try {
      PrivateFiles.own(directory)
      true
    } catch { case _: IOException => false }

  private def refuse(problem: String): Option[PageCache] = {
    if (problems.add(problem)) log.warn("Reading without the page cache: {}", problem)
    None
  }

  private def start(settings: (Vector[TierSettings], AdmissionPolicy)): TieredPageCache = {
    val (tiers, admission) = settings
    val cache = create(tiers, admission = admission)
    housekeeper.scheduleWithFixedDelay(() => cache.sweep(), SweepSeconds, SweepSeconds, TimeUnit.SECONDS)
    housekeeper.scheduleWithFixedDelay(() => cache.tidy(), 0, TidySeconds, TimeUnit.SECONDS)
    cache
  }

  private[cache] def create(
      settings: Vector[TierSettings],
      clock: () => Int = seconds,
      restMs: Long = Tier.RestMs,
      admission: AdmissionPolicy = AdmissionPolicy.Always,
      nanos: () => Long = () => System.nanoTime
  ): TieredPageCache = {
    val fetching = new StoreCosts
    val tiers = settings.foldRight(Vector.empty[Tier]) { (each, below) =>
      new Tier(each, below.headOption, Some(new TierCosts(fetching.whole, nanos)), clock, restMs) +: below
    }
    new TieredPageCache(settings.head.pageSize, tiers, fetching, admission, MappedPages)
  }

  /** The wall clock, the only one that all processes share. */
  private def seconds: () => Int = () => (System.currentTimeMillis / 1000).toInt
}

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
  private val turns = new Turns

  private val fetches = new FetchCoordinator(
    () => tiers.iterator.flatMap(_.locks).nextOption(),
    label => pageOf(lookUp(label)),
    (label, data, scanned) =>
      insert(tiers, label, data, if (scanned) EvictionPolicy.Scanned else EvictionPolicy.Read) != Tier.Refused
  )

  override def keeps: Boolean = tiers.exists(_.keeps)

  override def room: Long = tiers.map(_.room).sum

  override def find(of: ObjectVersion, index: Long): Option[Page] = {
    val mapped = if (exists(of, index)) lookUp(PageLabel(of, index, pageSize)) else null
    (if (mapped == null) Counters.PageMisses else Counters.PageHits).increment()
    Option(pageOf(mapped))
  }

  override def has(of: ObjectVersion, index: Long): Boolean = {
    val key = of.page(index, pageSize)
    tiers.exists(_.has(key))
  }

  override def claim(of: ObjectVersion, index: Long, patienceMs: Long): Claim =
    fetches.claim(PageLabel(of, index, pageSize), patienceMs)

  override def fetched(bytes: Long, nanos: Long): Unit = store.fetched(bytes, nanos)

  override def answered(nanos: Long): Unit = store.answered(nanos)

  override def admits(of: ObjectVersion, first: Long, last: Long, wanted: Long, request: Long): Boolean =
    admission == AdmissionPolicy.Always || tiers.find(_.keeps).exists { tier =>
      val touches = (first to last).map(tier.touches(of, _))
      val kept = math.min(of.length, (last + 1) * pageSize) - first * pageSize
      val read = AdmissionPolicy.Read(wanted, kept, request.max(wanted))
      admission.admits(touches, read, costsIn(tier), kept <= room || turns.next())
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

  override def passed(of: ObjectVersion, index: Long): Unit =
    if (admission != AdmissionPolicy.Always) {
      Counters.PagesNotKept.increment()
      tiers.find(_.keeps).foreach(_.touched(of, index))
    }

  override def keep(of: ObjectVersion, index: Long, data: ByteBuffer): Unit = {
    val label = PageLabel(of, index, pageSize)
    // On one tier only: what no room is made for in memory is not worth writing to disk before anybody reads it.
    def kept = insert(tiers.find(_.keeps), label, data, EvictionPolicy.Written) == Tier.Kept
    if (!fetches.isFetching(label.key) && !has(of, index) && kept) Counters.PagesWrittenThrough.increment()
  }

  override def rename(from: ObjectVersion, fromIndex: Long, to: ObjectVersion, toIndex: Long): Unit = {
    val (old, other) = (PageLabel(from, fromIndex, pageSize), PageLabel(to, toIndex, pageSize))
    // On whichever tier the other name is there already, on another it would be there twice.
    if (tiers.exists(_.has(other.key))) tiers.foreach(_.forget(old.key))
    else tiers.exists(_.rename(old, other)): Unit
  }

  override def forget(of: ObjectVersion): Unit =
    for (index <- 0L until (of.length + pageSize - 1) / pageSize) {
      val key = of.page(index, pageSize)
      tiers.foreach(_.forget(key))
    }

  /** Gives back what evicted pages still take of this process's memory. */
  def sweep(): Unit = mappings.sweep()

  def tidy(): Unit = tiers.foreach(_.tidy())

  private def exists(of: ObjectVersion, index: Long): Boolean = index >= 0 && index * pageSize < of.length

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

/**
 * The pages of those who have one set of credentials: what one of them may read, the store may refuse to another, and
 * nobody asks it about a page that is here.
 */
private[cache] final class ScopedPageCache(pages: PageCache, scope: String) extends PageCache {

  private def in(of: ObjectVersion): ObjectVersion = of.scoped(scope)

  override def pageSize: Int = pages.pageSize
  override def keeps: Boolean = pages.keeps
  override def room: Long = pages.room
  override def find(of: ObjectVersion, index: Long): Option[Page] = pages.find(in(of), index)
  override def has(of: ObjectVersion, index: Long): Boolean = pages.has(in(of), index)
  override def claim(of: ObjectVersion, index: Long, patienceMs: Long): Claim = pages.claim(in(of), index, patienceMs)
  override def fetched(bytes: Long, nanos: Long): Unit = pages.fetched(bytes, nanos)
  override def answered(nanos: Long): Unit = pages.answered(nanos)
  override def admits(of: ObjectVersion, first: Long, last: Long, wanted: Long, request: Long): Boolean =
    pages.admits(in(of), first, last, wanted, request)
  override def passed(of: ObjectVersion, index: Long): Unit = pages.passed(in(of), index)
  override def keep(of: ObjectVersion, index: Long, data: ByteBuffer): Unit = pages.keep(in(of), index, data)
  override def rename(from: ObjectVersion, fromIndex: Long, to: ObjectVersion, toIndex: Long): Unit =
    pages.rename(in(from), fromIndex, in(to), toIndex)
  override def forget(of: ObjectVersion): Unit = pages.forget(in(of))
}

private[cache] object ScopedPageCache {

  /**
   * The scope of all who have these settings' credentials, from which nobody learns anything about them: a part of a
   * hash of the access key's name, or of [[CacheSettings.Scope]] where that is set, as for renewed credentials. None if
   * it is unknown whose the credentials are ([[CredentialIdentity]]).
   */
  def scopeOf(conf: Configuration, bucket: String, environment: Map[String, String] = sys.env): Option[String] = {
    val named = Option(conf.getTrimmed(CacheSettings.Scope)).filter(_.nonEmpty).map("scope " + _)
    named.orElse(CredentialIdentity.of(conf, bucket, environment)).map(hash)
  }

  /**
   * A scope of nobody but one file system. Not of its process: a service's users may each have a file system there with
   * credentials of their own.
   */
  def aloneScope(conf: Configuration): String =
    hash("alone " + conf.getTrimmed(CacheSettings.Instance, UUID.randomUUID.toString))

  private def hash(identity: String): String =
    HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(s"penstock $identity".getBytes(UTF_8)), 0, 8)
}
