package io.penstock.fs.cache

import java.lang.management.ManagementFactory
import java.nio.file.{Files, Path, Paths}

import com.sun.management.OperatingSystemMXBean
import org.apache.hadoop.conf.Configuration

import io.penstock.fs.metrics.Counters
import io.penstock.fs.metrics.Counters.Counter

/**
 * Where a tier is and how large it may become.
 *
 * @param adaptive
 *   whether it leaves pages to a store that is as near, as [[TierCosts]] has it
 */
private[cache] final case class TierSettings(
    kind: TierKind,
    directory: Path,
    size: TierSize,
    pageSize: Int,
    adaptive: Boolean = false
) {

  def name: String = kind.name

  /**
   * Bytes it may take now.
   *
   * @param used
   *   bytes it takes already
   * @throws java.io.IOException
   *   if the file system does not answer
   */
  def budget(used: Long): Long = {
    val store = Files.getFileStore(directory)
    size.budget(kind.total(directory), store.getUsableSpace + used)
  }
}

private[cache] sealed abstract class TierKind(val name: String, val bytesRead: Counter) {

  /** What a size in percent is a share of, in bytes. */
  def total(directory: Path): Long
}

private[cache] object TierKind {

  case object Memory extends TierKind("memory", Counters.BytesFromMemory) {
    override def total(directory: Path): Long =
      ManagementFactory.getPlatformMXBean(classOf[OperatingSystemMXBean]).getTotalMemorySize
  }

  case object Disk extends TierKind("disk", Counters.BytesFromDisk) {
    override def total(directory: Path): Long = Files.getFileStore(directory).getTotalSpace
  }
}

private[cache] object TierSettings {

  private val DefaultSize = "10%"
  private val DefaultPageSize = 1024 * 1024

  /** The least a checksum block needs, and the most a slot of the page table can describe. */
  private val PageSizes = 4096L to 64L * 1024 * 1024

  /**
   * The tiers that are on, memory first.
   *
   * @return
   *   left: what is wrong, and what would be right
   */
  def from(conf: Configuration): Either[String, Vector[TierSettings]] =
    for {
      pageSize <- pageSizeIn(conf)
      admission <- AdmissionPolicy.from(conf)
      // No store is nearer than memory.
      memory <- tier(conf, TierKind.Memory, CacheSettings.MemoryDirectory, CacheSettings.MemorySize, pageSize, false)
      adaptive = admission != AdmissionPolicy.Always
      disk <- tier(conf, TierKind.Disk, CacheSettings.DiskDirectory, CacheSettings.DiskSize, pageSize, adaptive)
    } yield (memory ++ disk).toVector

  private def pageSizeIn(conf: Configuration): Either[String, Int] = {
    val text = conf.getTrimmed(CacheSettings.PageSize, DefaultPageSize.toString)
    TierSize.parse(text) match {
      case Right(TierSize.Bytes(bytes)) if PageSizes.contains(bytes) => Right(bytes.toInt)
      case _ => Left(s"${CacheSettings.PageSize}: '$text' is no page size: write one between 4K and 64M")
    }
  }

  private def tier(
      conf: Configuration,
      kind: TierKind,
      directory: String,
      size: String,
      pageSize: Int,
      adaptive: Boolean
  ): Either[String, Option[TierSettings]] =
    TierSize.parse(conf.getTrimmed(size, DefaultSize)).left.map(problem => s"$size: $problem").map {
      case TierSize.Bytes(0) | TierSize.Percent(0) => None
      case budget =>
        Option(conf.getTrimmed(directory)).filter(_.nonEmpty).map(Paths.get(_)).orElse(default(kind)).map { path =>
          TierSettings(kind, path.toAbsolutePath.normalize, budget, pageSize, adaptive)
        }
    }

  private def default(kind: TierKind): Option[Path] = {
    val own = Paths.get(s"penstock-${System.getProperty("user.name")}", "cache")
    kind match {
      case TierKind.Memory => Some(Paths.get("/dev/shm")).filter(Files.isDirectory(_)).map(_.resolve(own))
      case TierKind.Disk => Some(Paths.get(System.getProperty("java.io.tmpdir")).resolve(own))
    }
  }
}

/** How large a tier may become. */
private[cache] sealed trait TierSize {

  /**
   * The budget in bytes.
   *
   * @param total
   *   what percentages are of
   * @param available
   *   what the file system could give the tier, including what the tier has already
   */
  def budget(total: Long, available: Long): Long
}

private[cache] object TierSize {

  /** Taken at its word. */
  final case class Bytes(bytes: Long) extends TierSize {
    override def budget(total: Long, available: Long): Long = bytes
  }

  /** Never more than half of what is available: the file system has other users. */
  final case class Percent(percent: Double) extends TierSize {
    override def budget(total: Long, available: Long): Long =
      math.min((total * percent / 100).toLong, available / 2)
  }

  private val Sized = """(\d+)\s*([KMGT]?)B?""".r
  private val Share = """(\d+(?:\.\d+)?)\s*%""".r

  /** Left says what is wrong with the text. */
  def parse(text: String): Either[String, TierSize] = text.trim.toUpperCase(java.util.Locale.ROOT) match {
    case Sized(number, unit) if number.length <= 15 =>
      val shift = if (unit.isEmpty) 0 else 10 * (" KMGT".indexOf(unit))
      val bytes = BigInt(number) << shift
      if (bytes.isValidLong) Right(Bytes(bytes.toLong)) else Left(s"'$text' is more than any disk holds")
    case Share(number) if number.toDouble <= 100 => Right(Percent(number.toDouble))
    case _ => Left(s"'$text' is no size: write bytes, 512M, 20G, or a percentage up to 100%")
  }
}
