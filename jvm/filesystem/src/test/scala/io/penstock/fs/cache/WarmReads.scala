package io.penstock.fs.cache

import java.io.RandomAccessFile
import java.lang.management.ManagementFactory
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.file.{Files, Path, StandardOpenOption}
import java.util.concurrent.atomic.AtomicLong

import scala.util.Random

/**
 * Reading what is in the page cache against reading a file on the same medium, into arrays: processor time of the
 * reading threads per 10⁹ bytes. One file, one object of as many pages of 1 MiB; the arms take turns.
 */
private[cache] class WarmReads(directory: Path, mebibytes: Int, repetitions: Int) {
  import PageCacheBench._

  private val PageSize = 1 << 20
  private val file = directory.resolve("file")
  private val of = ObjectIdentity("lake", "object", mebibytes.toLong * PageSize, "etag")
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
