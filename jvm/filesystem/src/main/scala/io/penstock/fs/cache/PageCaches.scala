package io.penstock.fs.cache

import java.io.IOException
import java.nio.file.Path
import java.util.concurrent.{ConcurrentHashMap, Executors, TimeUnit}

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.slf4j.LoggerFactory

import io.penstock.fs.CacheSettings

/** The page caches of this process: one for each set of settings, for as long as the process lives. */
object PageCaches {

  private val log = LoggerFactory.getLogger(getClass)

  /** A quarter of the mappings that the kernel allows a process (`vm.max_map_count`): others map files too. */
  private val MappedPages = 16384

  private val SweepSeconds = 2L
  private val TidySeconds = 60L

  private val caches = new ConcurrentHashMap[(Vector[TierSettings], AdmissionPolicy), TieredPageCache]
  private val problems = ConcurrentHashMap.newKeySet[String]

  private lazy val housekeeper = Executors.newSingleThreadScheduledExecutor { work =>
    val thread = new Thread(work, "penstock-pages")
    thread.setDaemon(true)
    thread
  }

  /**
   * The cache that these settings ask for, as far as it is theirs ([[ScopedPageCache]]); none if they turn it off, or
   * make no sense, which is logged once. Never throws, nor waits for the tiers: whether they work is seen at the first
   * use.
   */
  def of(conf: Configuration): Option[PageCache] =
    if (!CacheSettings.enabled(conf)) None
    else
      try
        TierSettings.from(conf).flatMap(tiers => AdmissionPolicy.from(conf).map(tiers -> _)) match {
          case Right((tiers, _)) if tiers.isEmpty => None
          case Right(settings) =>
            Some(new ScopedPageCache(caches.computeIfAbsent(settings, start), ScopedPageCache.scopeOf(conf)))
          case Left(problem) => refuse(problem)
        }
      catch { case NonFatal(failure) => refuse(failure.toString) }

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
      admission: AdmissionPolicy = AdmissionPolicy.Always
  ): TieredPageCache = {
    val fetching = new StoreCosts
    val tiers = settings.foldRight(Vector.empty[Tier]) { (each, below) =>
      new Tier(each, below.headOption, Some(new TierCosts(fetching.whole)), clock, restMs) +: below
    }
    new TieredPageCache(settings.head.pageSize, tiers, fetching, admission, MappedPages)
  }

  /** The wall clock, the only one that all processes share. */
  private def seconds: () => Int = () => (System.currentTimeMillis / 1000).toInt
}
