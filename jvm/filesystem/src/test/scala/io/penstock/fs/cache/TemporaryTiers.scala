package io.penstock.fs.cache

import java.nio.ByteBuffer
import java.nio.file.{Files, Path}
import java.util.concurrent.atomic.{AtomicInteger, AtomicLong}

import scala.util.Random

import org.scalatest.{BeforeAndAfterEach, Suite}

/** A directory for each test, and caches in it that share nothing in this process, as those of several processes. */
private[cache] trait TemporaryTiers extends BeforeAndAfterEach { this: Suite =>

  val PageSize: Int = 128 * 1024

  /** Seconds; moves only when a test says so. */
  val now = new AtomicInteger(1000)

  private val ticks = new AtomicLong

  /** What takes a tier a page, so that no suite depends on the machine's pace: a microsecond. */
  val nanos: () => Long = () => ticks.addAndGet(1000)

  private var root: Path = _

  def directory: Path = root

  override def beforeEach(): Unit = {
    super.beforeEach()
    root = Files.createTempDirectory("penstock-pages")
  }

  override def afterEach(): Unit = {
    PrivateFiles.deleteTree(root)
    super.afterEach()
  }

  def memory(bytes: Long): TierSettings = settings(TierKind.Memory, bytes)
  def disk(bytes: Long): TierSettings = settings(TierKind.Disk, bytes)

  private def settings(kind: TierKind, bytes: Long): TierSettings =
    TierSettings(kind, root.resolve(kind.name), TierSize.Bytes(bytes), PageSize, adaptive = kind == TierKind.Disk)

  def cache(tiers: TierSettings*): TieredPageCache = cacheThatRests(0, tiers: _*)

  def cacheThatRests(restMs: Long, tiers: TierSettings*): TieredPageCache =
    PageCaches.create(tiers.toVector, () => now.get, restMs, nanos = nanos)

  def version(name: String, pages: Double): ObjectVersion =
    ObjectVersion("lake", name, (pages * PageSize).toLong, s"etag-of-$name")

  /** The bytes of page `index` of the object: other bytes for every page. */
  def bytesOf(of: ObjectVersion, index: Long): Array[Byte] = {
    val bytes = new Array[Byte](PageLabel(of, index, PageSize).length)
    new Random(of.hashCode * 31L + index).nextBytes(bytes)
    bytes
  }

  /** @return whether a tier took the page */
  def fill(cache: PageCache, of: ObjectVersion, index: Long, scanned: Boolean = false): Boolean =
    cache.claim(of, index, 0) match {
      case granted: Claim.Granted => granted.fill(ByteBuffer.wrap(bytesOf(of, index)), scanned)
      case other => throw new AssertionError(s"page $index of ${of.key} is not to be had: $other")
    }

  /** The page's bytes as the cache has them. */
  def read(cache: PageCache, of: ObjectVersion, index: Long): Option[Seq[Byte]] =
    cache.find(of, index).flatMap { page =>
      val bytes = new Array[Byte](page.length)
      try if (page.read(0, bytes, 0, bytes.length)) Some(bytes.toSeq) else None
      finally page.close()
    }

  /** Makes one byte of a file another. */
  def flip(file: Path, at: Long): Unit = {
    val bytes = Files.readAllBytes(file)
    bytes(at.toInt) = (bytes(at.toInt) ^ 1).toByte
    Files.write(file, bytes)
  }

  /** The page files below a tier. */
  def filesOf(tier: TierSettings): Seq[Path] = TierDirectory.existing(tier.directory).toSeq.flatMap(_.pageFiles)

  def tableOf(tier: TierSettings): PageTable =
    new PageTable(TierDirectory.existing(tier.directory).get.words, () => now.get)
}
