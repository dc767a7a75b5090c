package io.penstock.fs.read

import java.io.{EOFException, IOException}
import java.nio.ByteBuffer
import java.util.concurrent.CompletableFuture
import java.util.concurrent.atomic.AtomicBoolean
import java.util.function.{Consumer, IntFunction}

import org.apache.hadoop.fs.s3a.impl.streams.{InputStreamType, ObjectInputStream, ObjectReadParameters}
import org.apache.hadoop.fs.{
  ByteBufferPositionedReadable,
  ByteBufferReadable,
  CanUnbuffer,
  FSExceptionMessages,
  FileRange,
  StreamCapabilities
}

/**
 * An object read through the page cache. Opening sends no request, and neither does reading pages that are there.
 *
 * One version of the object is read from the first byte to the last: pages that were there are its, and a response that
 * is not fails the read with S3A's `RemoteFileChangedException`.
 *
 * Reads at the stream's own position are one thread's business at a time (others wait); positional and vectored reads
 * may go on beside them and each other. Closing waits for a read at the stream's position, not for the others: vectored
 * ranges that have not come by then fail.
 *
 * Memory: an open stream that is not reading holds less than a kilobyte of heap, and the mapping of the page it stands
 * on until it is closed or unbuffered. A request on its way holds one page, in a buffer that all streams share; a
 * stream has at most one request of its own on its way, and `fs.s3a.vectored.active.ranged.reads` in the background for
 * each vectored read or reading ahead. A stream that reads on where no tier has room holds the page it stands on in
 * memory, and a connection until it is closed or jumps.
 */
final private[read] class PageInputStream(
    parameters: ObjectReadParameters,
    reader: PageReader,
    mostAhead: Int
) extends ObjectInputStream(InputStreamType.Custom, parameters)
    with CanUnbuffer
    with ByteBufferReadable
    with ByteBufferPositionedReadable
    with VectoredReads {

  private val statistics = getS3AStreamStatistics
  private val fileSystemStatistics = Option(getContext.getStats)
  private val length = getContentLength
  private val single = new Array[Byte](1)
  private var positioned = begin(length)

  /** Whether positional reads have been there first, so that the next read is not the first of the stream. */
  @volatile private var touched = false
  @volatile private var closed = false

  /** Set when what was begun in the background is not wanted any more; replaced by the next that begins something. */
  @volatile private var stop = new AtomicBoolean

  private def begin(end: Long) =
    new PositionedPageReader(reader, 0, true, ReadAhead(getInputPolicy, mostAhead, reader.layout, end))

  /** Whoever opened the stream, and has read nothing yet, has said that he reads no further than to this byte. */
  private[read] def endsAt(end: Long): Unit = synchronized { positioned = begin(end) }

  /** Whoever opened the stream, and has read nothing yet, asked the store for the object's status at this time. */
  private[read] def listed(asked: Long): Unit = reader.listed(asked)

  override def getPos: Long = synchronized(positioned.at)

  override def seek(target: Long): Unit = synchronized {
    checkOpen()
    if (target < 0) throw new EOFException(s"${FSExceptionMessages.NEGATIVE_SEEK} $target")
    if (length > 0) positioned.seek(target)
  }

  override def seekToNewSource(target: Long): Boolean = false

  override def skip(n: Long): Long = synchronized {
    checkOpen()
    val skipped = math.max(0, math.min(n, length - positioned.at))
    positioned.seek(positioned.at + skipped)
    skipped
  }

  override def available(): Int = synchronized {
    checkOpen()
    math.max(0, math.min(length - positioned.at, Int.MaxValue.toLong)).toInt
  }

  override def read(): Int = synchronized {
    checkOpen()
    if (positioned.read(single, 0, 1) < 0) -1
    else {
      counted(1)
      single(0) & 0xff
    }
  }

  override def read(into: Array[Byte], offset: Int, wanted: Int): Int = synchronized {
    checkOpen()
    validatePositionedReadArgs(positioned.at, into, offset, wanted)
    if (wanted == 0) 0
    else {
      statistics.readOperationStarted(positioned.at, wanted.toLong)
      completed(wanted, positioned.read(into, offset, wanted))
    }
  }

  override def read(into: ByteBuffer): Int = synchronized {
    checkOpen()
    val wanted = into.remaining
    if (wanted == 0) 0
    else {
      statistics.readOperationStarted(positioned.at, wanted.toLong)
      completed(wanted, positioned.read(into))
    }
  }

  override def read(position: Long, into: Array[Byte], offset: Int, wanted: Int): Int = {
    checkOpen()
    validatePositionedReadArgs(position, into, offset, wanted)
    if (wanted == 0) 0
    else {
      statistics.readOperationStarted(position, wanted.toLong)
      completed(wanted, at(position)(_.read(into, offset, wanted)))
    }
  }

  override def read(position: Long, into: ByteBuffer): Int = {
    checkOpen()
    checkPosition(position)
    val wanted = into.remaining
    if (wanted == 0) 0
    else {
      statistics.readOperationStarted(position, wanted.toLong)
      completed(wanted, at(position)(_.read(into)))
    }
  }

  override def readFully(position: Long, into: Array[Byte], offset: Int, wanted: Int): Unit = {
    checkOpen()
    validatePositionedReadArgs(position, into, offset, wanted)
    statistics.readFullyOperationStarted(position, wanted.toLong)
    if (wanted > 0) whole(wanted, at(position)(_.read(into, offset, wanted)))
  }

  override def readFully(position: Long, into: ByteBuffer): Unit = {
    checkOpen()
    checkPosition(position)
    val wanted = into.remaining
    statistics.readFullyOperationStarted(position, wanted.toLong)
    if (wanted > 0) whole(wanted, at(position)(_.read(into)))
  }

  /** Reads without moving the stream. */
  private def at(position: Long)(read: PositionedPageReader => Int): Int = {
    val positioned =
      new PositionedPageReader(reader, position, !touched, ReadAhead(getInputPolicy, 0, reader.layout, length))
    touched = true
    try read(positioned)
    finally positioned.release()
  }

  override protected def objectLength: Long = length

  override protected def readSorted(
      ranges: Vector[FileRange],
      allocate: IntFunction[ByteBuffer],
      release: Consumer[ByteBuffer]
  ): Unit = {
    ranges.foreach(_.setData(new CompletableFuture[ByteBuffer]))
    touched = true
    val stopping = wanting()
    val requests = new VectoredRead(reader, ranges, allocate, release, () => stopping.get).start()
    statistics.readVectoredOperationStarted(ranges.size, requests)
    // Counted here and not where the bytes come: the statistics of this thread are its task's.
    counted(ranges.map(_.getLength.toLong).sum)
  }

  private def wanting(): AtomicBoolean = synchronized {
    if (stop.get) stop = new AtomicBoolean
    stop
  }

  private def completed(wanted: Int, read: Int): Int = {
    if (read > 0) counted(read.toLong)
    statistics.readOperationCompleted(wanted, read)
    read
  }

  private def whole(wanted: Int, read: Int): Unit = {
    if (read > 0) counted(read.toLong)
    if (read < wanted) throw new EOFException(FSExceptionMessages.EOF_IN_READ_FULLY)
  }

  private def counted(bytes: Long): Unit = {
    statistics.bytesRead(bytes)
    fileSystemStatistics.foreach(_.incrementBytesRead(bytes))
  }

  override protected def checkOpen(): Unit =
    if (closed) throw new IOException(s"$getUri: ${FSExceptionMessages.STREAM_IS_CLOSED}")

  private def checkPosition(position: Long): Unit =
    if (position < 0) throw new EOFException(s"${FSExceptionMessages.NEGATIVE_SEEK} $position")

  override def unbuffer(): Unit = synchronized {
    stop.set(true)
    positioned.release()
    statistics.unbuffered()
  }

  override def close(): Unit = synchronized {
    if (!closed) {
      closed = true
      stop.set(true)
      positioned.release()
      super.close()
    }
  }

  override def hasCapability(capability: String): Boolean =
    capability.toLowerCase(java.util.Locale.ROOT) match {
      case StreamCapabilities.IOSTATISTICS_CONTEXT | StreamCapabilities.UNBUFFER | StreamCapabilities.VECTOREDIO |
          StreamCapabilities.READBYTEBUFFER | StreamCapabilities.PREADBYTEBUFFER =>
        true
      case _ => super.hasCapability(capability)
    }

  override protected def isStreamOpen: Boolean = !closed && positioned.holds

  override protected def abortInFinalizer(): Unit = positioned.release()

  override def toString: String = s"PageInputStream{$getUri, length $length}\n$statistics"
}
