package io.penstock.fs.read

import java.nio.file.Files

import scala.collection.mutable
import scala.util.Random

import org.apache.hadoop.fs.{FileSystem, Path}

import io.penstock.fs.CacheSettings
import io.penstock.fs.cache.{ObjectIdentity, PageCaches}
import io.penstock.fs.testing.Trees

/**
 * Random reads of several processes on one cache, while objects are overwritten, pages and tiers vanish, and processes
 * are killed, against arrays in memory.
 *
 * `-Dpenstock.model.steps=N` makes it longer, `-Dpenstock.model.seed=N` another; a seed repeats a run as far as timing
 * allows.
 */
class ModelTest extends ReadsSuite {

  private val seed = sys.props.get("penstock.model.seed").filter(_ != "random").fold(1L)(_.toLong)
  private val steps = sys.props.get("penstock.model.steps").fold(60)(_.toInt)
  private val random = new Random(seed)

  // Room for about an object: pages are evicted, and move from memory to disk, all the time.
  override protected def settings: Map[String, String] =
    Map(CacheSettings.MemorySize -> (4 * PageSize).toString, CacheSettings.DiskSize -> (8 * PageSize).toString)

  private val length = 5 * PageSize + 123

  /** All versions, the oldest first, and all of the same length: nothing but their bytes tells them apart. */
  final private class Modelled(val key: String) {
    val path: Path = bucket.path(key)
    val versions = mutable.ArrayBuffer.empty[ModelTest.Written]

    def overwrite(fs: FileSystem): Unit = {
      val data = ReadsSuite.bytes(length, random.nextLong())
      val etag = bucket.put(key, data)
      versions += ModelTest.Written(data, etag, fs.getFileStatus(path).getModificationTime / 1000)
    }
  }

  /**
   * A stream may be of the version its status stands for, if that is one, or of any that was current since it was
   * opened until its first read.
   */
  final private class Stream(val name: String, val of: Modelled, status: ModelTest.Written) {
    private val opened = of.versions.size - 1
    private var possible: Option[Set[Int]] = None

    def open(process: ReaderProcess): String =
      process.call("open", name, of.path, length, status.modified * 1000)

    private def now: Set[Int] =
      possible.getOrElse(
        (opened until of.versions.size).toSet + of.versions.lastIndexWhere(_.modified == status.modified)
      )

    /** @return whether the stream can be read on */
    def check(answer: String, ranges: Seq[(Int, Int)]): Boolean = {
      val fitting = now.filter { version =>
        val data = of.versions(version).data
        answer == ReaderProcess.checksum(ranges.flatMap { case (at, size) => data.slice(at, at + size) }.toArray)
      }
      val mayHaveChanged = now.exists(_ < of.versions.size - 1)
      if (answer == "changed") assert(mayHaveChanged, s"${of.key} has not changed since $name was opened")
      else assert(fitting.nonEmpty, s"$name read $answer of ${of.key} at $ranges, not of any of the versions $now")
      possible = Some(fitting)
      answer != "changed"
    }
  }

  test(s"what is read is what was written (seed $seed)") {
    val fs = fileSystem()
    val objects = Vector.tabulate(3)(i => new Modelled(s"model-$i"))
    objects.foreach(_.overwrite(fs))
    def process() = new ReaderProcess(conf(CacheSettings.Admission -> pick(Vector("always", "again", "measured"))))
    val processes = Array.fill(2)(process())
    processes.foreach(_.ready())
    val streams = Array.fill(2)(mutable.ArrayBuffer.empty[Stream])
    try
      for (step <- 1 to steps) withClue(s"seed $seed, step $step: ") {
        val who = random.nextInt(processes.length)
        random.nextInt(100) match {
          case n if n < 70 => read(processes(who), streams(who), objects, s"s$step")
          case n if n < 80 => pick(objects).overwrite(fs)
          case n if n < 90 => loseAPage()
          case n if n < 94 => forget(pick(objects))
          case n if n < 97 => Trees.delete(tiers.resolve(pick(Vector("memory", "disk"))))
          case _ =>
            // In the middle of whatever it does.
            streams(who).headOption.foreach(stream => processes(who).ask("pread", stream.name, 0, length))
            processes(who).kill()
            processes(who) = process().ready()
            streams(who).clear()
        }
      }
    finally processes.foreach(_.close())
  }

  private def read(
      process: ReaderProcess,
      streams: mutable.ArrayBuffer[Stream],
      objects: Vector[Modelled],
      name: String
  ): Unit = {
    if (streams.isEmpty || random.nextInt(4) == 0) {
      val of = pick(objects)
      val status = if (random.nextInt(4) == 0) pick(of.versions.toVector) else of.versions.last
      val stream = new Stream(name, of, status)
      assert(stream.open(process) == "opened")
      streams += stream
    }
    val stream = pick(streams.toVector)
    val ranges =
      if (random.nextInt(3) > 0) Seq(range(0, length))
      else (0 until 3).map(third => range(third * (length / 3), length / 3))
    val (at, size) = ranges.head
    val answer =
      if (ranges.size > 1) process.call("vector" +: stream.name +: ranges.map { case (at, size) => s"$at+$size" }: _*)
      else process.call(pick(Vector("read", "pread")), stream.name, at, size)
    val goesOn = stream.check(answer, ranges)
    if (!goesOn || streams.size > 5) {
      assert(process.call("close", stream.name) == "closed")
      streams -= stream
    }
  }

  private def range(from: Int, size: Int): (Int, Int) = {
    val at = random.nextInt(size)
    val most = if (random.nextBoolean()) 200 else size
    (from + at, 1 + random.nextInt(math.min(most, size - at)))
  }

  private def pick[T](from: IndexedSeq[T]): T = from(random.nextInt(from.size))

  private def loseAPage(): Unit = {
    val files = pageFiles
    if (files.nonEmpty) Files.deleteIfExists(pick(files)): Unit
  }

  private def forget(of: Modelled): Unit =
    PageCaches.of(conf()).foreach(_.forget(ObjectIdentity(bucket.name, of.key, length.toLong, of.versions.last.etag)))
}

private object ModelTest {

  /** @param modified in seconds, as statuses are compared */
  final private[read] case class Written(data: Array[Byte], etag: String, modified: Long)
}
