package io.penstock.workloads.reads

import java.lang.management.{ManagementFactory, MemoryType}
import java.nio.charset.StandardCharsets.US_ASCII
import java.nio.file.{Files, NoSuchFileException, Path => LocalPath, Paths}
import java.util.concurrent.{Callable, CountDownLatch, ExecutionException, Executors}

import scala.jdk.CollectionConverters._
import scala.util.Using

import com.sun.management.OperatingSystemMXBean
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, LocalFileSystem, Path}

import io.penstock.application.{Application, Arguments, UsageError}
import io.penstock.fs.metrics.Counters
import io.penstock.workloads.clients.{Content, ContentStream}
import io.penstock.workloads.{Manifest, Report}

/**
 * Measures reads through Hadoop's FileSystem interface: time, processor time and requests of each pattern with each
 * number of threads. Without Spark, so that only the file system is measured.
 *
 * Everything is first read once and compared byte by byte. Each measurement begins with passes that are not counted,
 * which compile code and fill a warm cache. Every pass has a file system instance of its own, so that no pass gains
 * from the memory of an earlier one.
 */
object Reads extends Application {

  private val usage =
    s"Reads --location URI --report URI --tier DIRECTORY ${HadoopSettings.Usage} [--cache warm|cold|small|none] " +
      s"[--medium memory|disk] [--patterns ${Pattern.All.map(_.key).mkString(",")}] [--threads 1,2] [--passes 3] " +
      "[--warmup-passes 1] [--raw true|false]"
  private val known =
    Set(
      "location",
      "report",
      "tier",
      "settings",
      "cache",
      "medium",
      "patterns",
      "threads",
      "passes",
      "warmup-passes",
      "raw"
    )

  override def run(arguments: Seq[String]): Int = {
    val options = Arguments.parse(arguments, known, usage)
    val location = options.required("location").stripSuffix("/")
    val place = Paths.get(options.required("tier"))
    val onDisk = options.read("medium", "memory or disk")(Map("memory" -> false, "disk" -> true).get).getOrElse(false)
    val patterns = options
      .list("patterns")
      .fold(Pattern.All)(_.map { key =>
        val known = Pattern.All.map(_.key).mkString(", ")
        Pattern.All.find(_.key == key).getOrElse(throw new UsageError(s"--patterns takes $known, not '$key'."))
      })
    val threads = options.list("threads").getOrElse(Seq("1", "2")).map { text =>
      text.toIntOption.filter(_ >= 1).getOrElse(throw new UsageError(s"--threads takes numbers, not '$text'."))
    }
    val passes = options.int("passes", 3, atLeast = 1)
    val warmupPasses = options.int("warmup-passes", 1, atLeast = 1)
    val raw = options.read("raw", "true or false")(_.toBooleanOption).getOrElse(false)
    val configuration = HadoopSettings.of(options)
    val data = new Manifest(location, configuration).read[ReadObjects]()
    val tiers = Tier.all(place, onDisk, data.bytes)
    val tier = options.read("cache", tiers.keys.mkString(", "))(tiers.get).getOrElse(tiers("warm"))
    Report.to(options.required("report"), new Configuration(false)) { report =>
      new Reads(location, data, configuration, tier, raw, report).all(patterns, threads, warmupPasses, passes)
      if (report.wrongChecks > 0) 9 else 0
    }
  }
}

private[reads] final class Reads(
    location: String,
    data: ReadObjects,
    configuration: Configuration,
    tier: Tier,
    raw: Boolean,
    report: Report
) {

  def all(patterns: Seq[Pattern], threads: Seq[Int], warmupPasses: Int, passes: Int): Unit =
    try {
      compareAll()
      for (pattern <- patterns; count <- threads) {
        for (_ <- 1 to warmupPasses) pass(pattern, count)
        for (number <- 1 to passes) record(pattern, count, number, pass(pattern, count))
      }
      report.check("bytes looked at", right = true, "eight of every 4 KiB that a measurement has read are right")
    } catch {
      case wrong: WrongContent => report.check("bytes looked at", right = false, wrong.getMessage)
    }

  private def compareAll(): Unit = {
    val wrong = withSource { source =>
      val stream = new ContentStream(new Content(ReadObjects.Seed))
      (source.large +: source.small).flatMap { one =>
        Using
          .resource(source.open(one))(stream.difference(_, one.number.toLong, one.length)(_ => ()))
          .map(what => s"${one.name} $what")
      }
    }
    report.check("contents", wrong.headOption, s"${data.bytes} bytes of ${data.objects.size} objects")
  }

  private def pass(pattern: Pattern, threads: Int): (Volume, Effort) = withSource { source =>
    Using.resource(new Crew(threads))(crew => Effort.of(crew.run(part => pattern.read(source, part, threads))))
  }

  private def record(pattern: Pattern, threads: Int, number: Int, measured: (Volume, Effort)): Unit = {
    val (volume, effort) = measured
    report.measure(
      s"${pattern.name}, $threads ${if (threads == 1) "thread" else "threads"}",
      effort.elapsedMs,
      volume.bytes,
      rows = 0,
      "operations" -> volume.operations,
      "threads" -> threads,
      "pass" -> number,
      "core_seconds" -> effort.coreSeconds,
      "s3_requests" -> effort.requests,
      "counters" -> effort.counters,
      "peak_heap_bytes" -> effort.peakHeapBytes
    )
  }

  private def withSource[T](use: Source => T): T = tier.pass(configuration) { configuration =>
    Using.resource(FileSystem.newInstance(new Path(location).toUri, configuration)) { fileSystem =>
      use(new Source(below(fileSystem), location, data))
    }
  }

  private def below(fileSystem: FileSystem): FileSystem = fileSystem match {
    case checksummed: LocalFileSystem if raw => checksummed.getRaw
    case _ if raw => throw new UsageError(s"--raw is for local files, and $location is none.")
    case other => other
  }
}

/** Threads that are let go together, made before anything is timed. */
private final class Crew(size: Int) extends AutoCloseable {
  private val pool = Executors.newFixedThreadPool(size)
  private val ready = new CountDownLatch(size)
  (1 to size).foreach { _ =>
    pool.execute { () =>
      ready.countDown()
      ready.await()
    }
  }
  ready.await()

  /** Raises what the first of them raised. */
  def run(work: Int => Volume): Volume =
    try
      pool
        .invokeAll((0 until size).map(part => (() => work(part)): Callable[Volume]).asJava)
        .asScala
        .map(_.get())
        .reduce(_ + _)
    catch { case failed: ExecutionException => throw failed.getCause }

  override def close(): Unit = pool.shutdown()
}

/**
 * The effort of this process for a piece of work.
 *
 * @param coreSeconds
 *   processor time of all its threads, the compiler's and the collector's included
 * @param requests
 *   requests to the store, by kind; without zeros
 * @param counters
 *   the file system's counters; without zeros
 * @param peakHeapBytes
 *   the sum of the heap pools' highest fillings, garbage included
 */
final case class Effort(
    elapsedMs: Double,
    coreSeconds: Double,
    requests: Map[String, Long],
    counters: Map[String, Long],
    peakHeapBytes: Long
)

object Effort {

  def of[T](work: => T): (T, Effort) = {
    // What others left behind is not this work's to clear away.
    System.gc()
    heapPools.foreach(_.resetPeakUsage())
    val before = Counters.now()
    val processors = ProcessorTime.start()
    val started = System.nanoTime()
    val result = work
    val elapsed = System.nanoTime() - started
    val used = processors.used()
    val counted = Counters.now().collect { case (name, now) if now > before(name) => name -> (now - before(name)) }
    val sent = Counters.RequestsByKind.flatMap(requests => counted.get(requests.sent.name).map(requests.kind -> _))
    val peak = heapPools.map(_.getPeakUsage.getUsed).sum
    (result, Effort(elapsed / 1e6, used, sent.toMap, counted, peak))
  }

  private def heapPools = ManagementFactory.getMemoryPoolMXBeans.asScala.filter(_.getType == MemoryType.HEAP)
}

/**
 * The processor time of all threads of this process, those of the JVM included.
 *
 * Java's own figure has ticks of 10 ms, in which tens of megabytes are read; the kernel's scheduler counts each thread
 * in nanoseconds (`/proc/self/task/N/schedstat`, the first number). A thread that ends while it is measured takes its
 * count with it. Where the kernel keeps no such counts, it is Java's.
 */
sealed trait ProcessorTime {

  /** Seconds from then until now. */
  def used(): Double
}

object ProcessorTime {

  private val Threads = Paths.get("/proc/self/task")

  def start(): ProcessorTime =
    if (Files.isReadable(Paths.get("/proc/self/schedstat"))) new ByThread(counts()) else new ByTicks(ticks())

  private final class ByThread(before: Map[String, Long]) extends ProcessorTime {
    override def used(): Double =
      counts().map { case (thread, now) => now - before.getOrElse(thread, 0L) }.sum / 1e9
  }

  private final class ByTicks(before: Long) extends ProcessorTime {
    override def used(): Double = (ticks() - before) / 1e9
  }

  private def counts(): Map[String, Long] =
    Using.resource(Files.newDirectoryStream(Threads))(_.asScala.flatMap(count).toMap)

  private def count(thread: LocalPath): Option[(String, Long)] =
    try {
      val text = new String(Files.readAllBytes(thread.resolve("schedstat")), US_ASCII)
      Some(thread.getFileName.toString -> text.takeWhile(_ != ' ').toLong)
    } catch { case _: NoSuchFileException => None } // it has ended

  private def ticks(): Long =
    ManagementFactory.getPlatformMXBean(classOf[OperatingSystemMXBean]).getProcessCpuTime
}
