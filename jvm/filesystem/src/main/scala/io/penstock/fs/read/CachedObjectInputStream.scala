package io.penstock.fs.read

import java.io.{EOFException, IOException}
import java.nio.ByteBuffer
import java.util.Locale
import java.util.concurrent.atomic.AtomicLong
import java.util.function.{Consumer, IntFunction}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.statistics.impl.IOStatisticsBinding
import org.apache.hadoop.fs.statistics.{IOStatistics, IOStatisticsSource, StreamStatisticNames}
import org.apache.hadoop.fs.{
  ByteBufferPositionedReadable,
  ByteBufferReadable,
  CanUnbuffer,
  EtagSource,
  FSDataInputStream,
  FSExceptionMessages,
  FSInputStream,
  FileRange,
  FileStatus,
  FileSystem,
  StreamCapabilities,
  VectoredReadUtils
}

import io.penstock.fs.cache.{ObjectVersion, PageCache, PageCaches}
import io.penstock.fs.store.EntityTag

/**
 * An object whose pages were all here when it was opened, read from them without S3A. The first page that is gone or
 * damaged meanwhile has S3A open the object, and from then on everything is read from there.
 *
 * May be used by several threads. It holds no memory and no page between two calls.
 *
 * @param statistics
 *   where the file system counts what was read, for the thread that reads
 * @param otherwise
 *   S3A's stream of the object: of the version with this entity tag, of which bytes have been given out, or, if none
 *   have, of the one that the caller's status stands for
 */
final private[read] class CachedObjectInputStream(
    pages: PageCache,
    of: ObjectVersion,
    statistics: FileSystem.Statistics,
    otherwise: Option[String] => FSDataInputStream
) extends FSInputStream
    with ByteBufferReadable
    with ByteBufferPositionedReadable
    with VectoredReads
    with CanUnbuffer
    with StreamCapabilities
    with IOStatisticsSource {

  private val layout = Layout(of.length, pages.pageSize)
  private val givenOut = new AtomicLong
  private var position = 0L
  @volatile private var s3a: FSDataInputStream = _
  @volatile private var closed = false

  override def getPos: Long = synchronized(position)

  override def seek(target: Long): Unit = synchronized {
    checkOpen()
    checkPosition(target)
    position = target
  }

  override def seekToNewSource(target: Long): Boolean = false

  override def skip(n: Long): Long = synchronized {
    checkOpen()
    val skipped = math.max(0, math.min(n, of.length - position))
    position += skipped
    skipped
  }

  override def available(): Int = synchronized {
    checkOpen()
    math.max(0, math.min(of.length - position, Int.MaxValue.toLong)).toInt
  }

  override def read(): Int = {
    val one = new Array[Byte](1)
    if (read(ByteBuffer.wrap(one)) < 0) -1 else one(0) & 0xff
  }

  override def read(into: Array[Byte], offset: Int, wanted: Int): Int = synchronized {
    checkOpen()
    validatePositionedReadArgs(position, into, offset, wanted)
    read(ByteBuffer.wrap(into, offset, wanted))
  }

  override def read(into: ByteBuffer): Int = synchronized {
    checkOpen()
    val read = readAt(position, into)
    if (read > 0) position += read
    read
  }

  override def read(at: Long, into: Array[Byte], offset: Int, wanted: Int): Int = {
    checkOpen()
    validatePositionedReadArgs(at, into, offset, wanted)
    readAt(at, ByteBuffer.wrap(into, offset, wanted))
  }

  override def read(at: Long, into: ByteBuffer): Int = {
    checkOpen()
    checkPosition(at)
    readAt(at, into)
  }

  override def readFully(at: Long, into: ByteBuffer): Unit = {
    checkOpen()
    checkPosition(at)
    var next = at
    while (into.hasRemaining) {
      val read = readAt(next, into)
      if (read < 0) throw new EOFException(FSExceptionMessages.EOF_IN_READ_FULLY)
      next += read
    }
  }

  /**
   * Reads until `into` is full or the object ends, as far as pages are concerned; else as much as S3A's stream does.
   */
  private def readAt(at: Long, into: ByteBuffer): Int =
    if (!into.hasRemaining) 0
    else if (at >= of.length) -1
    else {
      val wanted = math.min(into.remaining.toLong, of.length - at).toInt
      if (s3a == null && copy(at, into.duplicate(), wanted) && giveOut(wanted)) {
        into.position(into.position() + wanted)
        statistics.incrementBytesRead(wanted.toLong)
        wanted
      } else readInstead(at, into)
    }

  /** @return false if a page is not there, or damaged: then what was copied means nothing */
  private def copy(from: Long, into: ByteBuffer, length: Int): Boolean = {
    val start = into.position()
    var at = from
    var sound = true
    while (sound && at < from + length) {
      val index = layout.pageOf(at)
      val until = math.min(layout.end(index), from + length)
      into.limit(start + (until - from).toInt)
      sound = pages.find(of, index).exists { page =>
        try page.read((at - layout.start(index)).toInt, into)
        finally page.close()
      }
      at = until
    }
    sound
  }

  /** @return false if another thread has had S3A open the object meanwhile, which may be in another version */
  private def giveOut(bytes: Int): Boolean = synchronized {
    val still = s3a == null
    if (still) givenOut.addAndGet(bytes.toLong)
    still
  }

  /** By an array: while no tier works, streams are S3A's own, which know no buffers. */
  private def readInstead(at: Long, into: ByteBuffer): Int = {
    val bytes = new Array[Byte](math.min(into.remaining, pages.pageSize))
    val read = instead().read(at, bytes, 0, bytes.length)
    if (read > 0) {
      into.put(bytes, 0, read)
      givenOut.addAndGet(read.toLong)
    }
    read
  }

  private def instead(): FSDataInputStream = synchronized {
    checkOpen()
    if (s3a == null) s3a = otherwise(if (givenOut.get > 0) Some(of.etag) else None)
    s3a
  }

  override protected def objectLength: Long = of.length

  override protected def readSorted(
      ranges: Vector[FileRange],
      allocate: IntFunction[ByteBuffer],
      release: Consumer[ByteBuffer]
  ): Unit = ranges.foreach(range => range.setData(VectoredReadUtils.readRangeFrom(this, range, allocate, release)))

  override protected def checkOpen(): Unit =
    if (closed) throw new IOException(s"$name: ${FSExceptionMessages.STREAM_IS_CLOSED}")

  private def checkPosition(position: Long): Unit =
    if (position < 0) throw new EOFException(s"${FSExceptionMessages.NEGATIVE_SEEK} $position")

  override def unbuffer(): Unit = {
    val other = s3a
    if (other != null) other.unbuffer()
  }

  override def close(): Unit = synchronized {
    if (!closed) {
      closed = true
      if (s3a != null) s3a.close()
    }
  }

  override def hasCapability(capability: String): Boolean =
    capability.toLowerCase(Locale.ROOT) match {
      case StreamCapabilities.IOSTATISTICS | StreamCapabilities.UNBUFFER | StreamCapabilities.VECTOREDIO |
          StreamCapabilities.READBYTEBUFFER | StreamCapabilities.PREADBYTEBUFFER =>
        true
      case _ => false
    }

  override def getIOStatistics: IOStatistics =
    IOStatisticsBinding
      .dynamicIOStatistics()
      .withAtomicLongCounter(StreamStatisticNames.STREAM_READ_BYTES, givenOut)
      .build()

  private def name: String = s"s3a://${of.bucket}/${of.key}"

  override def toString: String = s"CachedObjectInputStream{$name, length ${of.length}}"
}

/**
 * Small objects that are here whole. For each stream S3A asks another thread, and makes a store of some fifty
 * statistics that it copies when the stream is closed: half a millisecond, where reading such an object takes a
 * hundredth of one. They need nothing of it.
 */
final private[fs] class CachedObjects(pages: PageCache, known: ObjectMetadataCache, settings: StreamSettings) {

  /**
   * The version that a stream reads which is opened with this status; none if any of its pages is missing, if it has
   * more than those of a small object, or if the store is to be asked first which version it is.
   *
   * @param asked
   *   when the store was asked for the status, in milliseconds since 1970; none if nobody knows
   */
  def find(bucket: String, key: String, status: FileStatus, asked: Option[Long]): Option[ObjectVersion] = {
    val layout = Layout(status.getLen, pages.pageSize)
    if (layout.pages == 0 || layout.pages > ReadPlan.SmallObjectPages) None
    else
      versionOf(bucket, key, status, asked)
        .map(ObjectVersion(bucket, key, layout.length, _))
        .filter(of => (0L until layout.pages).forall(pages.has(of, _)))
  }

  private def versionOf(bucket: String, key: String, status: FileStatus, asked: Option[Long]): Option[String] = {
    val etag = status match {
      case tagged: EtagSource => EntityTag.strong(tagged.getEtag)
      case _ => None
    }
    val opened = ObjectStatus(settings.endpoint, bucket, key, status.getLen, status.getModificationTime / 1000)
    val record = if (opened.modified > 0) known.get(opened) else None
    VersionPolicy.decide(etag, record, settings.strict, System.currentTimeMillis, settings.maxStaleness, asked) match {
      case VersionPolicy.Given(version) => Some(version)
      case VersionPolicy.Seen(version) => Some(version)
      case VersionPolicy.Claimed(_) | VersionPolicy.Confirm(_) | VersionPolicy.Learn => None
    }
  }

  /** As [[CachedObjectInputStream]]. */
  def open(
      of: ObjectVersion,
      statistics: FileSystem.Statistics
  )(otherwise: Option[String] => FSDataInputStream): FSDataInputStream =
    new FSDataInputStream(new CachedObjectInputStream(pages, of, statistics, otherwise))
}

private[fs] object CachedObjects {

  /** @param conf a bucket's, with its own settings in place of the general ones */
  def apply(pages: PageCache, conf: Configuration): CachedObjects =
    new CachedObjects(pages, ObjectMetadataCache.in(PageCaches.directories(conf)), StreamSettings(conf))
}
