package io.penstock.workloads.reads

import java.io.EOFException
import java.nio.{ByteBuffer, ByteOrder}
import java.util.function.IntFunction

import scala.jdk.CollectionConverters._
import scala.util.{Random, Using}

import org.apache.hadoop.fs.{FSDataInputStream, FileRange, FileStatus, FileSystem, FutureDataInputStreamBuilder, Path}

import io.penstock.workloads.clients.Content

/** The bytes read differ from those written. */
final class WrongContent(file: String, offset: Long) extends Exception(s"$file differs at byte $offset")

/** The objects in one file system. Their states are asked for once, before anything is timed, as Spark's listing is. */
final class Source(val fileSystem: FileSystem, location: String, data: ReadObjects) {
  import Source._

  private val content = new Content(ReadObjects.Seed)
  private val states: Map[Int, FileStatus] =
    data.objects.map(one => one.number -> fileSystem.getFileStatus(one.path(location))).toMap

  val large: ReadObjects.Object = data.objects.head
  val small: IndexedSeq[ReadObjects.Object] = data.objects.tail.toIndexedSeq

  /** Open without a read policy, so that the file system's settings decide. */
  def open(one: ReadObjects.Object): FSDataInputStream = opened(one)(_ => ())

  def open(one: ReadObjects.Object, policy: String): FSDataInputStream = opened(one) { builder =>
    val _ = builder.opt("fs.option.openfile.read.policy", policy)
  }

  private def opened(one: ReadObjects.Object)(choose: FutureDataInputStreamBuilder => Unit): FSDataInputStream = {
    val path: Path = states(one.number).getPath
    val builder = fileSystem.openFile(path)
    choose(builder)
    // Spark's readers know the state of the file from its listing.
    builder.withFileStatus(states(one.number)).build().get()
  }

  /**
   * Raises `WrongContent` where a byte looked at is not the object's: eight of each 4 KiB, since every 64 KiB of an
   * object differ from all others in each of their words. To compare all would cost more than to read them.
   *
   * @param bytes
   *   from 0 to its limit those of the object from `offset` on
   */
  def look(one: ReadObjects.Object, offset: Long, bytes: ByteBuffer): Unit = {
    val words = bytes.duplicate.order(ByteOrder.LITTLE_ENDIAN)
    var index = ((-offset % LookEvery + LookEvery) % LookEvery).toInt
    while (index + java.lang.Long.BYTES <= bytes.limit()) {
      if (words.getLong(index) != content.word(one.number.toLong, offset + index))
        throw new WrongContent(one.name, offset + index)
      index += LookEvery
    }
  }
}

object Source {
  private val LookEvery = 4 << 10
}

/** The parts of an object that each thread of a pattern reads, decided before anything is read. */
object Access {

  final case class Stretch(offset: Long, length: Int)

  /** The range (from, until) of thread `part` of `parts`, cut at whole units; all ranges together cover `size`. */
  def share(size: Long, unit: Long, part: Int, parts: Int): (Long, Long) = {
    def cut(number: Int) = if (number == parts) size else size / unit * number / parts * unit
    (cut(part), cut(part + 1))
  }

  /** Blocks in random order, none twice: one in `oneIn` of those there are, the thread's part of them. */
  def scattered(size: Long, block: Int, oneIn: Int, part: Int, parts: Int): IndexedSeq[Stretch] = {
    val blocks = (size / block).toInt
    val chosen = new Random(ReadObjects.Seed).shuffle((0 until blocks).toVector).take(math.max(1, blocks / oneIn))
    val (from, until) = share(chosen.size.toLong, 1, part, parts)
    chosen.slice(from.toInt, until.toInt).map(index => Stretch(index.toLong * block, block))
  }

  /** The column chunks that a query reads of each row group: of 16 equal ones those of `Columns`. */
  def columns(size: Long, part: Int, parts: Int): IndexedSeq[Seq[Stretch]] = {
    val group = math.min(RowGroup, size)
    val chunk = (group / Chunks).toInt
    val (from, until) = share(size / group, 1, part, parts)
    (from until until).map(number => Columns.map(column => Stretch(number * group + column.toLong * chunk, chunk)))
  }

  private val RowGroup = 32L << 20
  private val Chunks = 16

  /** Neighbours and gaps, as in a query that asks for some columns of many. */
  private val Columns = Seq(0, 1, 4, 9, 10, 15)
}

/** A thread's reads: bytes that reached its buffers, and calls of the file system's interface. */
final case class Volume(bytes: Long, operations: Long) {
  def +(other: Volume): Volume = Volume(bytes + other.bytes, operations + other.operations)
}

/**
 * One way to read. Each of several threads has a part of it, and streams of its own.
 *
 * @param key
 *   names it among the options
 * @param name
 *   names it in the report
 */
sealed abstract class Pattern(val key: String, val name: String) {

  /** Reads the part of thread `part` of `parts`. Raises `WrongContent`. */
  def read(source: Source, part: Int, parts: Int): Volume
}

object Pattern {

  val All: Seq[Pattern] = Seq(Sequential, Scattered, Vectored, Small)

  private val ScanBytes = 1 << 20
  private val BlockBytes = 64 << 10
  private val OneBlockIn = 4

  /** From the beginning of its part to its end, a MiB at a time. */
  case object Sequential extends Pattern("sequential", "sequential") {
    override def read(source: Source, part: Int, parts: Int): Volume = {
      val (from, until) = Access.share(source.large.length, ScanBytes.toLong, part, parts)
      val buffer = new Array[Byte](ScanBytes)
      Using.resource(source.open(source.large)) { in =>
        in.seek(from)
        var position = from
        while (position < until) {
          val wanted = math.min(ScanBytes.toLong, until - position).toInt
          if (in.readNBytes(buffer, 0, wanted) < wanted) throw new EOFException(s"before byte ${position + wanted}")
          source.look(source.large, position, ByteBuffer.wrap(buffer, 0, wanted))
          position += wanted
        }
        Volume(until - from, (until - from + ScanBytes - 1) / ScanBytes)
      }
    }
  }

  /** A quarter of the object's 64 KiB blocks in random order, each by its position. */
  case object Scattered extends Pattern("random", "random 64 KiB") {
    override def read(source: Source, part: Int, parts: Int): Volume = {
      val blocks = Access.scattered(source.large.length, BlockBytes, OneBlockIn, part, parts)
      val buffer = new Array[Byte](BlockBytes)
      Using.resource(source.open(source.large)) { in =>
        for (block <- blocks) {
          in.readFully(block.offset, buffer, 0, block.length)
          source.look(source.large, block.offset, ByteBuffer.wrap(buffer, 0, block.length))
        }
        Volume(blocks.map(_.length.toLong).sum, blocks.size.toLong)
      }
    }
  }

  /** Some columns of each row group, asked for together as Parquet does. */
  case object Vectored extends Pattern("vectored", "vectored, 6 of 16 columns") {
    private val allocate: IntFunction[ByteBuffer] = ByteBuffer.allocate(_)

    override def read(source: Source, part: Int, parts: Int): Volume = {
      val groups = Access.columns(source.large.length, part, parts)
      Using.resource(source.open(source.large, "parquet, columnar, vector, random")) { in =>
        for (group <- groups) {
          val ranges = group.map(one => FileRange.createFileRange(one.offset, one.length))
          in.readVectored(ranges.asJava, allocate)
          for (range <- ranges) {
            val bytes = range.getData.join()
            if (bytes.remaining < range.getLength) throw new EOFException(s"in the range at ${range.getOffset}")
            source.look(source.large, range.getOffset, bytes.slice())
          }
        }
        Volume(groups.flatten.map(_.length.toLong).sum, groups.size.toLong)
      }
    }
  }

  /** Each of its small objects opened, read whole and closed. */
  case object Small extends Pattern("small", "small objects") {
    override def read(source: Source, part: Int, parts: Int): Volume = {
      val (from, until) = Access.share(source.small.size.toLong, 1, part, parts)
      val buffer = new Array[Byte](source.small.head.length.toInt)
      val mine = source.small.slice(from.toInt, until.toInt)
      for (one <- mine) {
        Using.resource(source.open(one, "whole-file"))(_.readFully(0, buffer, 0, one.length.toInt))
        source.look(one, 0, ByteBuffer.wrap(buffer, 0, one.length.toInt))
      }
      Volume(mine.map(_.length).sum, mine.size.toLong)
    }
  }
}
