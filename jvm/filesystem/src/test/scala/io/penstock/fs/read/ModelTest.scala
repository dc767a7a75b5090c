package io.penstock.fs.read

import java.io.FileNotFoundException
import java.nio.file.Files

import scala.collection.immutable.TreeMap
import scala.collection.mutable
import scala.util.Random

import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}
import org.scalacheck.Gen
import org.scalacheck.rng.Seed

import io.penstock.fs.PenstockFileSystem
import io.penstock.fs.cache.{CacheSettings, ObjectVersion, PageCaches}
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
    PageCaches
      .of(conf(), bucket.name)
      .foreach(_.forget(ObjectVersion(bucket.name, of.key, length.toLong, of.versions.last.etag)))
}

private object ModelTest {

  /** @param modified in seconds, as statuses are compared */
  final private[read] case class Written(data: Array[Byte], etag: String, modified: Long)
}

/**
 * Sequences of operations by two file systems of this process and by somebody else, against a map in memory: who lists
 * sees what is there, and reads what was listed.
 *
 * `-Dpenstock.model.sequences=N` tries more of them, `-Dpenstock.model.seed=N` others. The store is the tests' own, or
 * that of `PENSTOCK_TEST_S3_ENDPOINT`.
 */
class OperationsModelTest extends ReadsSuite {

  import OperationsModelTest._

  private val sequences = sys.props.get("penstock.model.sequences").fold(60)(_.toInt)
  private val seed = sys.props.get("penstock.model.seed").filter(_ != "random").fold(System.nanoTime)(_.toLong)

  // Old statuses find out at once, so that what they yield is known.
  override protected def settings: Map[String, String] = Map(
    "fs.s3a.impl" -> classOf[Clocked].getName,
    CacheSettings.MaxStaleness -> "0s",
    CacheSettings.MemorySize -> (6 * PageSize).toString
  )

  test(s"$sequences sequences of operations leave what they would leave in a map (seed $seed)") {
    val writers = Vector("always", "again").map(policy => fileSystem(CacheSettings.Admission -> policy))
    for (n <- 0 until sequences) {
      val history = histories.pureApply(Gen.Parameters.default, Seed(seed + n))
      val world = new World(s"world-$n", writers)
      world.run(history, s"seed ${seed + n}")
      world.delete()
      // The gateway keeps each request, five kilobytes of it: ten thousand sequences send more than the heap holds.
      gateway.clear()
    }
  }

  /** One table, as the store has it and as the model has it. */
  final private class World(root: String, systems: Vector[FileSystem]) {

    private var files = TreeMap.empty[String, Array[Byte]]
    private var listed = Map.empty[String, FileStatus]

    private def path(name: String): Path = bucket.path(s"$root/$name")

    private def content(of: Content): Array[Byte] = {
      val bytes = new Array[Byte](of.length)
      new Random(of.seed).nextBytes(bytes)
      bytes
    }

    def run(history: Seq[Operation], story: String): Unit =
      history.zipWithIndex.foreach { case (operation, n) =>
        withClue(s"$story, step $n of $history: ")(step(operation))
      }

    /** Delete the table's objects, as an outsider does: the store holds one table at a time. */
    def delete(): Unit = bucket.list(s"$root/").foreach(bucket.delete)

    private def step(operation: Operation): Unit = operation match {
      case Write(by, name, of) =>
        val out = systems(by).create(path(name), true)
        try out.write(content(of))
        finally out.close()
        files += name -> content(of)
      case Delete(by, name) =>
        systems(by).delete(path(name), false)
        files -= name
      case DeleteDay(by, day) =>
        systems(by).delete(path(day), true)
        files = files.filterNot(_._1.startsWith(s"$day/"))
      case Rename(by, from, to) =>
        if (files.contains(from) && !files.contains(to) && from != to) {
          systems(by).mkdirs(path(to).getParent)
          assert(systems(by).rename(path(from), path(to)))
          files = files - from + (to -> files(from))
        }
      case Overwritten(name, of) =>
        bucket.put(s"$root/$name", content(of))
        files += name -> content(of)
        Clocked.pass()
      case Gone(name) =>
        bucket.delete(s"$root/$name")
        files -= name
        Clocked.pass()
      case ListDays(by) =>
        for (day <- Days) {
          val found = listing(systems(by), path(day))
          val expected = files.collect {
            case (name, bytes) if name.startsWith(s"$day/") => name -> bytes.length.toLong
          }
          assert(found.map(status => s"$day/${status.getPath.getName}" -> status.getLen).toMap == expected.toMap)
          listed = listed.filterNot(_._1.startsWith(s"$day/")) ++
            found.map(status => s"$day/${status.getPath.getName}" -> status)
        }
      case Read(by, name) =>
        files.get(name) match {
          case Some(bytes) =>
            val status = systems(by).getFileStatus(path(name))
            assert(status.getLen == bytes.length)
            assert(readAll(opened(systems(by), status)) sameElements bytes)
          case None => intercept[FileNotFoundException](systems(by).getFileStatus(path(name)))
        }
      case ReadListed(by, name) =>
        for (status <- listed.get(name)) files.get(name) match {
          case Some(bytes) if bytes.length == status.getLen =>
            assert(readAll(opened(systems(by), status)) sameElements bytes)
          case Some(_) => ()
          case None => if (status.getLen > 0) intercept[FileNotFoundException](readAll(opened(systems(by), status)))
        }
      case ReadVectored(by, name) =>
        for (bytes <- files.get(name) if bytes.length > 100) {
          val in = opened(systems(by), systems(by).getFileStatus(path(name)))
          val piece = new Array[Byte](50)
          try
            for (at <- Seq(bytes.length - 60, 7, bytes.length / 2)) {
              in.readFully(at.toLong, piece)
              assert(piece sameElements bytes.slice(at, at + 50))
            }
          finally in.close()
        }
    }

    private def listing(fs: FileSystem, directory: Path): Seq[FileStatus] =
      try fs.listStatus(directory).toSeq.filter(_.isFile)
      catch { case _: FileNotFoundException => Nil }
  }
}

private object OperationsModelTest {

  private val Days = (0 to 3).map(n => s"day=$n")

  /** By its clock nobody pauses, and what others have done is more than a second ago. */
  class Clocked extends PenstockFileSystem {
    override protected def now(): Long = Clocked.time
  }

  object Clocked {
    @volatile private var time = 0L
    def pass(): Unit = time += 2L * 1000 * 1000 * 1000
  }

  final case class Content(length: Int, seed: Int)

  /** `by`: which of the two file systems; the others are somebody else's. */
  sealed trait Operation
  final case class Write(by: Int, name: String, content: Content) extends Operation
  final case class Delete(by: Int, name: String) extends Operation
  final case class DeleteDay(by: Int, day: String) extends Operation
  final case class Rename(by: Int, from: String, to: String) extends Operation
  final case class Overwritten(name: String, content: Content) extends Operation
  final case class Gone(name: String) extends Operation
  final case class ListDays(by: Int) extends Operation
  final case class Read(by: Int, name: String) extends Operation
  final case class ReadListed(by: Int, name: String) extends Operation
  final case class ReadVectored(by: Int, name: String) extends Operation

  private val either = Gen.oneOf(0, 1)
  private val names = for (day <- Gen.oneOf(Days); file <- Gen.oneOf("a", "b")) yield s"$day/$file"
  // Of few lengths, so that versions differ in nothing but their bytes.
  private val contents =
    Gen.zip(Gen.oneOf(0, 1000, 64 * 1024, 150 * 1024), Gen.choose(1, 1000000)).map((Content.apply _).tupled)

  val histories: Gen[Seq[Operation]] = Gen.listOfN(
    25,
    Gen.frequency(
      6 -> Gen.zip(either, names, contents).map((Write.apply _).tupled),
      2 -> Gen.zip(either, names).map((Delete.apply _).tupled),
      1 -> Gen.zip(either, Gen.oneOf(Days)).map((DeleteDay.apply _).tupled),
      2 -> Gen.zip(either, names, names).map((Rename.apply _).tupled),
      3 -> Gen.zip(names, contents).map((Overwritten.apply _).tupled),
      2 -> names.map(Gone),
      4 -> either.map(ListDays),
      5 -> Gen.zip(either, names).map((Read.apply _).tupled),
      5 -> Gen.zip(either, names).map((ReadListed.apply _).tupled),
      2 -> Gen.zip(either, names).map((ReadVectored.apply _).tupled)
    )
  )
}
