package io.penstock.fs.read

import java.lang.management.ManagementFactory
import java.nio.file.{Files, Path => FilePath}
import java.util.concurrent.{Executors, Future}

import org.apache.hadoop.fs.{FileStatus, FileSystem}

import io.penstock.fs.testing.{Store, Trees}
import io.penstock.fs.{CacheSettings, Counters}

/**
 * What scanning some objects from end to end costs again and again, with tiers that hold all of them or a part, against
 * S3A:
 * {{{
 * mvn -q -f jvm/pom.xml -pl filesystem test-compile exec:exec -Dexec.executable=java -Dexec.classpathScope=test \
 *   -Dexec.args="-Xmx1g -XX:+UseParallelGC -cp %classpath io.penstock.fs.read.LargeScansBench DIRECTORY [OBJECTS [MIB [ROUNDS]]]"
 * }}}
 * DIRECTORY holds the pages of all tiers. Each round reads the same OBJECTS (8) of MIB (64) with each arm in turn, in
 * two threads; the first round of an arm finds nothing. Seconds of wall clock and of the process's processor time (the
 * store's too, unless it is outside), and what the counters say.
 */
object LargeScansBench {

  private val Threads = 2
  private val Told =
    Seq("requests_get", "bytes_fetched", "pages_filled", "pages_evicted", "pages_demoted", "bytes_from_disk")

  def main(arguments: Array[String]): Unit = {
    def argument(n: Int, default: Int) = arguments.lift(n).fold(default)(_.toInt)
    val directory = FilePath.of(arguments(0)).resolve("large-scans-bench")
    try new LargeScansBench(Files.createDirectories(directory), argument(1, 8), argument(2, 64)).run(argument(3, 5))
    finally Trees.delete(directory)
    // The store in this process has threads that would go on.
    sys.exit()
  }
}

private class LargeScansBench(directory: FilePath, objects: Int, mebibytes: Int) {
  import LargeScansBench._

  private val bucket = Store.newBucket()
  private val threads = Executors.newFixedThreadPool(Threads)
  private val all = objects * mebibytes * 1.1

  private def cached(name: String, memory: Double, disk: Double): FileSystem = {
    val conf = Store.conf()
    val tiers = Seq(
      CacheSettings.PageSize -> "1M",
      CacheSettings.ReadAhead -> "32M",
      CacheSettings.MemorySize -> s"${(all * memory).toInt}M",
      CacheSettings.DiskSize -> s"${(all * disk).toInt}M"
    )
    for ((key, value) <- ReadsSuite.cached(directory.resolve(name), 1 << 20) ++ tiers) conf.set(key, value)
    Store.fileSystem(bucket, conf)
  }

  private val arms: Seq[(String, FileSystem)] = Seq(
    "S3A" -> Store.fileSystem(bucket, Store.conf()),
    "memory for all" -> cached("all", 1, 0),
    "memory for half, disk for all" -> cached("half-disk", 0.5, 1),
    "memory for half" -> cached("half", 0.5, 0),
    "memory and disk for a quarter each" -> cached("quarters", 0.25, 0.25),
    "memory for a twentieth" -> cached("twentieth", 0.05, 0)
  )

  private val files: Seq[FileStatus] = (0 until objects).map { n =>
    bucket.put(s"object-$n", ReadsSuite.bytes(mebibytes << 20, n.toLong))
    arms.head._2.getFileStatus(bucket.path(s"object-$n"))
  }

  def run(rounds: Int): Unit = {
    for (round <- 1 to rounds; (name, fs) <- arms) {
      val before = Counters.now()
      val (cpu, wall) = (processorTime, System.nanoTime)
      files.map(file => threads.submit[Long](() => read(fs, file))).foreach((_: Future[Long]).get)
      val (tookCpu, tookWall) = ((processorTime - cpu) / 1e9, (System.nanoTime - wall) / 1e9)
      val counts = Told.map(name => s"$name ${Counters.now()(name) - before(name)}").mkString("  ")
      println(f"round $round  $name%-36s wall $tookWall%6.2f s  cpu $tookCpu%6.2f s  $counts")
    }
    arms.foreach(_._2.close())
  }

  private def processorTime: Long =
    ManagementFactory.getOperatingSystemMXBean.asInstanceOf[com.sun.management.OperatingSystemMXBean].getProcessCpuTime

  private def read(fs: FileSystem, file: FileStatus): Long = {
    val buffer = new Array[Byte](1 << 20)
    val opened = fs.openFile(file.getPath).opt("fs.option.openfile.read.policy", "sequential")
    val in = opened.withFileStatus(ReadsSuite.plain(file)).build().get()
    try Iterator.continually(in.read(buffer)).takeWhile(_ >= 0).map(_.toLong).sum
    finally in.close()
  }
}
