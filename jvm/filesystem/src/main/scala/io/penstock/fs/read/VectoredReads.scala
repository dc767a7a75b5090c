package io.penstock.fs.read

import java.nio.ByteBuffer
import java.util.function.{Consumer, IntFunction}
import java.util.{List => JavaList, Objects, Optional}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.{FileRange, PositionedReadable, VectoredReadUtils}

/** What every stream does with a vectored read before it reads: its ranges are checked against the object's end. */
private[read] trait VectoredReads extends PositionedReadable {

  /** In bytes. */
  protected def objectLength: Long

  /** Throws an `IOException` once the stream is closed. */
  protected def checkOpen(): Unit

  /** Sets each range's data. The ranges are within the object, apart from each other and in ascending order. */
  protected def readSorted(
      ranges: Vector[FileRange],
      allocate: IntFunction[ByteBuffer],
      release: Consumer[ByteBuffer]
  ): Unit

  override def readVectored(ranges: JavaList[_ <: FileRange], allocate: IntFunction[ByteBuffer]): Unit =
    readVectored(ranges, allocate, VectoredReadUtils.LOG_BYTE_BUFFER_RELEASED)

  override def readVectored(
      ranges: JavaList[_ <: FileRange],
      allocate: IntFunction[ByteBuffer],
      release: Consumer[ByteBuffer]
  ): Unit = {
    checkOpen()
    Objects.requireNonNull(release, "release")
    val sorted = VectoredReadUtils.validateAndSortRanges(ranges, Optional.of(Long.box(objectLength)))
    readSorted(sorted.asScala.toVector, allocate, release)
  }
}
