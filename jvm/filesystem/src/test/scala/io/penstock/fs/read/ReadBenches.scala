package io.penstock.fs.read

import java.lang.management.ManagementFactory
import java.net.URI
import java.nio.file.{Files, Path => FilePath}
import java.util.concurrent.{Executors, Future}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, FileSystem, LocalFileSystem, Path}

import io.penstock.fs.PenstockFileSystem
import io.penstock.fs.cache.CacheSettings
import io.penstock.fs.metrics.Counters
import io.penstock.fs.testing.{Requests, Store, Trees}

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

/**
 * What opening, reading and closing a small object costs whose page is here, against a local file:
 * {{{
 * mvn -q -f jvm/pom.xml -pl filesystem test-compile exec:exec -Dexec.executable=java -Dexec.classpathScope=test \
 *   -Dexec.args="-Xmx1g -XX:+UseParallelGC -cp %classpath io.penstock.fs.read.SmallReadsBench DIRECTORY [BYTES [ROUNDS]]"
 * }}}
 * DIRECTORY holds the pages and the files. Each round reads the same 256 objects of BYTES (4096) with each arm in turn;
 * microseconds of wall clock and of the process's processor time, bytes allocated by the reading thread, and requests,
 * all of one object.
 */
object SmallReadsBench {

  private val Objects = 256

  final private case class Sample(wallUs: Double, cpuUs: Double, allocated: Double, requests: Int)

  def main(arguments: Array[String]): Unit = {
    val directory = FilePath.of(arguments(0)).resolve("small-reads-bench")
    val size = arguments.lift(1).fold(4096)(_.toInt)
    val rounds = arguments.lift(2).fold(20)(_.toInt)
    try new SmallReadsBench(Files.createDirectories(directory), size).run(rounds)
    finally Trees.delete(directory)
    // The store in this process has threads that would go on.
    sys.exit()
  }
}

private class SmallReadsBench(directory: FilePath, size: Int) {
  import SmallReadsBench._

  private val bucket = Store.newBucket()
  private val data = ReadsSuite.bytes(size, 1)

  private val lake: FileSystem = {
    val conf = Store.conf()
    ReadsSuite.cached(directory.resolve("tiers"), 1 << 20).foreach { case (name, value) => conf.set(name, value) }
    conf.set("fs.s3a.penstock.cache.memory.size", "1G")
    conf.set("fs.s3a.impl", classOf[PenstockFileSystem].getName)
    Store.fileSystem(bucket, conf)
  }

  private val local: FileSystem =
    FileSystem.newInstance(URI.create("file:///"), new Configuration(false)).asInstanceOf[LocalFileSystem].getRaw

  private val inLake: Vector[FileStatus] = Vector.tabulate(Objects) { n =>
    bucket.put(s"small/$n", data)
    lake.getFileStatus(bucket.path(s"small/$n"))
  }

  private val inFiles: Vector[FileStatus] = Vector.tabulate(Objects) { n =>
    local.getFileStatus(new Path(Files.write(directory.resolve(s"file-$n"), data).toUri))
  }

  private val arms: Seq[(String, Int => java.io.InputStream)] = Seq(
    "local file, openFile" -> (n => openFile(local, inFiles(n))),
    "lake, openFile with the listing's status" -> (n => openFile(lake, inLake(n))),
    "lake, openFile with length and time" -> (n => openFile(lake, ReadsSuite.plain(inLake(n)))),
    "lake, open" -> (n => lake.open(inLake(n).getPath))
  )

  private def openFile(fs: FileSystem, status: FileStatus) =
    fs.openFile(status.getPath).withFileStatus(status).build().get()

  def run(rounds: Int): Unit = {
    // A version that was seen less than two seconds after it was made is asked for at each open.
    Thread.sleep(2100)
    val samples = arms.map(_ => Vector.newBuilder[Sample])
    // The first rounds are for the compiler.
    for (round <- -rounds / 4 until rounds; ((_, open), taken) <- arms.zip(samples)) {
      val sample = measured(open)
      if (round >= 0) taken += sample
    }
    for (((name, _), taken) <- arms.zip(samples)) {
      val all = taken.result()
      def median(of: Sample => Double) = all.map(of).sorted.apply(all.size / 2)
      println(
        f"$name%-42s n ${all.size}%3d  wall ${median(_.wallUs)}%7.1f us  cpu ${median(_.cpuUs)}%7.1f us  " +
          f"allocated ${median(_.allocated)}%8.0f B  requests ${all.last.requests.toDouble / Objects}%.2f"
      )
    }
    Seq(lake, local).foreach(_.close())
  }

  private def measured(open: Int => java.io.InputStream): Sample = {
    val threads = ManagementFactory.getThreadMXBean.asInstanceOf[com.sun.management.ThreadMXBean]
    val process = ManagementFactory.getOperatingSystemMXBean.asInstanceOf[com.sun.management.OperatingSystemMXBean]
    val into = new Array[Byte](size)
    val (allocated, cpu, wall) = (threads.getCurrentThreadAllocatedBytes, process.getProcessCpuTime, System.nanoTime)
    val requests = Requests.during {
      for (n <- 0 until Objects) {
        val in = open(n)
        try require(in.readNBytes(into, 0, size) == size)
        finally in.close()
      }
    }
    Sample(
      (System.nanoTime - wall) / 1e3 / Objects,
      (process.getProcessCpuTime - cpu) / 1e3 / Objects,
      (threads.getCurrentThreadAllocatedBytes - allocated).toDouble / Objects,
      requests.values.sum.toInt
    )
  }
}
