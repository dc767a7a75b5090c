package io.penstock.workloads.reads

import java.io.EOFException
import java.nio.ByteBuffer
import java.util.function.IntFunction

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.fs.FileRange

/** What a thread has read: bytes that reached its buffers, with how many calls of the file system's interface. */
final case class Volume(bytes: Long, operations: Long) {
  def +(other: Volume): Volume = Volume(bytes + other.bytes, operations + other.operations)
}

/** One way to read. Each of several threads has a part of it, and streams of its own. */
sealed abstract class Pattern(val name: String) {

  /** Reads the part of thread `part` of `parts`. Raises `WrongContent`. */
  def read(source: Source, part: Int, parts: Int): Volume
}

object Pattern {

  val All: Seq[Pattern] = Seq(Sequential, Scattered, Vectored, Small)

  private val ScanBytes = 1 << 20
  private val BlockBytes = 64 << 10
  private val OneBlockIn = 4

  /** From the beginning of its part to its end, a MiB at a time. */
  case object Sequential extends Pattern("sequential") {
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
  case object Scattered extends Pattern("random 64 KiB") {
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
  case object Vectored extends Pattern("vectored, 6 of 16 columns") {
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
  case object Small extends Pattern("small objects") {
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
