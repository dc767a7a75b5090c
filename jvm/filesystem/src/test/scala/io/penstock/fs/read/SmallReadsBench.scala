package io.penstock.fs.read

import java.lang.management.ManagementFactory
import java.net.URI
import java.nio.file.{Files, Path => FilePath}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, FileSystem, LocalFileSystem, Path}

import io.penstock.fs.PenstockFileSystem
import io.penstock.fs.testing.{Requests, Store, Trees}

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
