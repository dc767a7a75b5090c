package io.penstock.fs.cache

import java.io.RandomAccessFile
import java.lang.management.ManagementFactory
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.file.{Files, Path, StandardOpenOption}
import java.util.Locale
import java.util.concurrent.atomic.AtomicLong

import scala.util.Random

/**
 * What the page store costs, on an idle machine, in a directory of a tmpfs or of a disk (nothing else of it is
 * touched):
 * {{{
 * mvn -q -f jvm/pom.xml -pl filesystem test-compile exec:exec -Dexec.executable=java -Dexec.classpathScope=test \
 *   -Dexec.args="-Xmx1g -XX:+UseParallelGC -cp %classpath io.penstock.fs.cache.PageCacheBench DIRECTORY [MIB [PAGES [REPETITIONS]]]"
 * }}}
 * Reads MIB (512) from a file and from pages, in turns, REPETITIONS (9) times; then brings PAGES (1000000) of 2 KiB
 * into a tier, which takes 4 KiB and an inode each.
 */
object PageCacheBench {

  def main(arguments: Array[String]): Unit = {
    val directory = Path.of(arguments(0)).resolve("page-cache-bench")
    def number(n: Int, otherwise: Int): Int = arguments.lift(n).fold(otherwise)(_.toInt)
    try {
      PrivateFiles.createDirectories(directory)
      new WarmReads(directory, number(1, 512), number(3, 9)).run()
      new ManyPages(directory, number(2, 1000000)).run()
    } finally PrivateFiles.deleteTree(directory)
  }

  private[cache] def tier(directory: Path, budget: Long, pageSize: Int): TierSettings =
    TierSettings(TierKind.Memory, directory, TierSize.Bytes(budget), pageSize)

  /** Prints a row: what was measured, how often, its median and range. */
  private[cache] def row(what: String, unit: String, samples: Seq[Double]): Unit = {
    val sorted = samples.sorted
    val text = "%-58s %-14s n %3d  median %10.3f  from %10.3f to %10.3f"
    println(text.formatLocal(Locale.ROOT, what, unit, sorted.size, sorted(sorted.size / 2), sorted.head, sorted.last))
  }

  private[cache] def secondsOf(body: => Unit): Double = {
    val start = System.nanoTime
    body
    (System.nanoTime - start) / 1e9
  }
}

/** A million pages in one tier: what opening, looking up, inserting and evicting cost then. */
private[cache] class ManyPages(directory: Path, pages: Int) {
  import PageCacheBench._

  private val PageSize = 4096
  private val ObjectSize = 2048
  private val Batches = 20
  private val Lookups = 20000

  private val data = ByteBuffer.allocate(ObjectSize)
  private val footprint = SlotWord.BlockSize.toLong

  // Twice the room, and so twice the slots, as with pages that are smaller than the table reckons with.
  private val roomy = tier(directory.resolve("tier"), 2 * footprint * pages, PageSize)
  private val full = roomy.copy(size = TierSize.Bytes(footprint * pages))

  private def objectAt(n: Int): ObjectVersion = ObjectVersion("lake", s"part-$n", ObjectSize.toLong, "etag")

  private def open(settings: TierSettings): TieredPageCache = PageCaches.create(Vector(settings))

  def run(): Unit = {
    row("open an empty tier", "ms", Seq(secondsOf(open(roomy).keeps) * 1e3))
    val filling = open(roomy)
    row(s"insert until $pages pages, nothing evicted", "us/page", batches(0, pages)(insert(filling, _)))
    row(s"open a tier of $pages pages", "ms", Seq.fill(9)(secondsOf(open(roomy).keeps) * 1e3))
    row("open it and read a first page", "ms", Seq.tabulate(9)(n => secondsOf(read(open(roomy), n)) * 1e3))
    val random = new scala.util.Random(1)
    val cache = open(roomy)
    def lookUps(what: String)(body: => Unit): Unit = row(what, "us/page", batches(0, Lookups)(_ => body))
    lookUps("whether a page is there: it is")(cache.has(objectAt(random.nextInt(pages)), 0))
    lookUps("whether a page is there: it is not")(cache.has(objectAt(pages + random.nextInt(pages)), 0))
    lookUps("find and read a page, not mapped yet")(read(cache, random.nextInt(pages)))
    for (n <- 0 until 1000) read(cache, n)
    lookUps("find and read a page, mapped")(read(cache, random.nextInt(1000)))
    val evicting = open(full)
    row("insert, one page evicted for each", "us/page", batches(pages, pages / 20)(insert(evicting, _)))
    row("pages there in the end", "pages", Seq(TierDirectory.existing(full.directory).get.pageFiles.size.toDouble))
  }

  private def batches(first: Int, count: Int)(body: Int => Unit): Seq[Double] = {
    val each = math.max(1, count / Batches)
    (0 until Batches).map { batch =>
      secondsOf((0 until each).foreach(n => body(first + batch * each + n))) * 1e6 / each
    }
  }

  private def insert(cache: PageCache, n: Int): Unit = cache.keep(objectAt(n), 0, data)

  private def read(cache: PageCache, n: Int): Unit = cache.find(objectAt(n), 0).foreach { page =>
    page.read(0, new Array[Byte](ObjectSize), 0, ObjectSize)
    page.close()
  }
}

/**
 * Reading what is in the page cache against reading a file on the same medium, into arrays: processor time of the
 * reading threads per 10⁹ bytes. One file, one object of as many pages of 1 MiB; the arms take turns.
 */
private[cache] class WarmReads(directory: Path, mebibytes: Int, repetitions: Int) {
  import PageCacheBench._

  private val PageSize = 1 << 20
  private val file = directory.resolve("file")
  private val of = ObjectVersion("lake", "object", mebibytes.toLong * PageSize, "etag")
  private val settings = tier(directory.resolve("warm"), 2 * of.length, PageSize)

  /** Reads bytes from a position of the file, as one thread does. */
  private trait Reader extends AutoCloseable {
    def read(position: Long, into: Array[Byte]): Unit
  }

  private class RandomAccessReader extends Reader {
    private val from = new RandomAccessFile(file.toFile, "r")
    override def read(position: Long, into: Array[Byte]): Unit = {
      from.seek(position)
      from.readFully(into)
    }
    override def close(): Unit = from.close()
  }

  private class ChannelReader extends Reader {
    private val from = FileChannel.open(file, StandardOpenOption.READ)
    override def read(position: Long, into: Array[Byte]): Unit = {
      val buffer = ByteBuffer.wrap(into)
      while (buffer.hasRemaining) from.read(buffer, position + buffer.position())
    }
    override def close(): Unit = from.close()
  }

  private class PageReader(cache: PageCache) extends Reader {
    override def read(position: Long, into: Array[Byte]): Unit = {
      var done = 0
      while (done < into.length) {
        val at = position + done
        val page = cache.find(of, at / PageSize).get
        val length = math.min(into.length - done, page.length - (at % PageSize).toInt)
        try require(page.read((at % PageSize).toInt, into, done, length))
        finally page.close()
        done += length
      }
    }
    override def close(): Unit = ()
  }

  private val mapped = PageCaches.create(Vector(settings))

  private val arms: Seq[(String, () => () => Reader)] = Seq(
    "RandomAccessFile" -> (() => () => new RandomAccessReader),
    "FileChannel" -> (() => () => new ChannelReader),
    "pages, used before in this process" -> (() => () => new PageReader(mapped)),
    "pages, first use in this process" -> { () =>
      val fresh = PageCaches.create(Vector(settings))
      () => new PageReader(fresh)
    }
  )

  def run(): Unit = {
    prepare()
    for (threads <- Seq(1, 4); (pattern, size) <- Seq("sequential" -> PageSize, "random" -> 64 * 1024)) {
      val samples = arms.map(_ => Seq.newBuilder[Double])
      // The first round is for the compiler.
      for (repetition <- 0 to repetitions; ((_, arm), taken) <- arms.zip(samples)) {
        // What an earlier first use has mapped is unmapped by the collector; not in somebody's time.
        System.gc()
        val seconds = processorTime(arm(), threads, pattern == "random", size, repetition.toLong)
        if (repetition > 0) taken += seconds / (of.length / 1e9)
      }
      for (((name, _), taken) <- arms.zip(samples))
        row(s"$pattern ${size >> 10} KiB, $threads threads: $name", "core-s/GB", taken.result())
    }
  }

  private def prepare(): Unit = {
    val random = new Random(1)
    val data = new Array[Byte](PageSize)
    val out = Files.newOutputStream(file)
    val (written, kept) = (Seq.newBuilder[Double], Seq.newBuilder[Double])
    try
      for (index <- 0 until mebibytes) {
        random.nextBytes(data)
        written += secondsOf(out.write(data)) * 1e6
        kept += secondsOf(mapped.keep(of, index.toLong, ByteBuffer.wrap(data))) * 1e6
      }
    finally out.close()
    row("write 1 MiB to a file", "us/MiB", written.result())
    row("keep a page of 1 MiB", "us/MiB", kept.result())
  }

  /** Seconds of processor time in which `threads` together read as much as the file holds. */
  private def processorTime(reader: () => Reader, threads: Int, random: Boolean, size: Int, seed: Long): Double = {
    val total = new AtomicLong
    val share = of.length / threads
    val running = (0 until threads).map { n =>
      new Thread(() => {
        val from = reader()
        val positions = new Random(seed * threads + n)
        val into = new Array[Byte](size)
        val clock = ManagementFactory.getThreadMXBean
        val start = clock.getCurrentThreadCpuTime
        for (step <- 0L until share / size) {
          // Anywhere on a boundary of 4 KiB: most reads touch two checksum blocks, some two pages.
          val position =
            if (random) positions.nextLong((of.length - size) / 4096) * 4096 else n * share + step * size
          from.read(position, into)
        }
        total.addAndGet(clock.getCurrentThreadCpuTime - start)
        from.close()
      })
    }
    running.foreach(_.start())
    running.foreach(_.join())
    total.get / 1e9
  }
}
