package io.penstock.workloads.terasort

import java.io.{DataInputStream, DataOutputStream, EOFException, InputStream, OutputStream}
import java.nio.ByteBuffer
import java.util.concurrent.ConcurrentLinkedDeque

import scala.reflect.ClassTag

import org.apache.hadoop.io.NullWritable
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat
import org.apache.hadoop.mapreduce.{RecordWriter, TaskAttemptContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.serializer.{DeserializationStream, SerializationStream, Serializer, SerializerInstance}

/** The sort benchmark's record: 100 bytes, ordered by the first ten as unsigned bytes. */
object Record {
  val Bytes = 100
  val KeyBytes = 10

  /** The number of records read or written at a time: a little less than 64 KiB, which stays in a core's own cache. */
  val Batch = 640

  def batch(): Array[Byte] = new Array[Byte](Batch * Bytes)
}

/** A record's key as two unsigned numbers that are in the order of its bytes. */
final case class Key(prefix: Long, tail: Int) {

  def compare(other: Key): Int = {
    val first = java.lang.Long.compareUnsigned(prefix, other.prefix)
    if (first != 0) first else Integer.compare(tail, other.tail)
  }

  /** The ten bytes in hexadecimal. */
  override def toString: String = "%016x%04x".format(prefix, tail)
}

object Key {

  /** The tail is of two bytes, so that it is never negative. */
  def of(bytes: Array[Byte], offset: Int): Key = {
    val numbers = ByteBuffer.wrap(bytes)
    Key(numbers.getLong(offset), numbers.getShort(offset + 8) & 0xffff)
  }
}

/**
 * Some records on their way: what tasks hand to the shuffle and to the output. Records are never objects of their own:
 * at 100 bytes each, making and collecting them costs more than sorting them.
 */
trait RecordBlock {

  /** A multiple of `Record.Bytes`. */
  def bytes: Long

  /** The records one after the other, without a header. */
  def writeTo(out: OutputStream): Unit
}

/** The next records of `in`, through `batch`: what comes out of the shuffle. They can be written once, and must be. */
final class Streamed(in: InputStream, override val bytes: Long, batch: Array[Byte]) extends RecordBlock {
  private var left = bytes

  /** Return whether all of it was read, which the next read requires. */
  def done: Boolean = left == 0

  override def writeTo(out: OutputStream): Unit =
    while (left > 0) {
      val read = in.read(batch, 0, math.min(left, batch.length.toLong).toInt)
      if (read < 0) throw new EOFException(s"$left bytes of a block of $bytes are missing")
      out.write(batch, 0, read)
      left -= read
    }
}

/** The records of `buffer` that `order` names from `from` to before `until`, in that order. */
final class Gathered(buffer: RecordBuffer, order: Array[Int], from: Int, until: Int) extends RecordBlock {
  override def bytes: Long = (until - from).toLong * Record.Bytes

  override def writeTo(out: OutputStream): Unit = {
    val batch = Record.batch()
    var next = from
    while (next < until) {
      val end = math.min(until, next + Record.Batch)
      var filled = 0
      while (next < end) {
        buffer.copy(order(next), batch, filled)
        filled += Record.Bytes
        next += 1
      }
      out.write(batch, 0, filled)
    }
  }
}

/** Records `first` to before `first + count`, generated while they are written; `wrote` gets each batch. */
final class Generated(generator: RecordGenerator, first: Long, count: Long, wrote: Tally => Unit) extends RecordBlock {
  override def bytes: Long = count * Record.Bytes

  override def writeTo(out: OutputStream): Unit = {
    val batch = Record.batch()
    for (done <- 0L until count by Record.Batch.toLong) {
      val records = math.min(count - done, Record.Batch.toLong).toInt
      generator.fill(first + done, records, batch)
      wrote(Tally.of(batch, records * Record.Bytes))
      out.write(batch, 0, records * Record.Bytes)
    }
  }
}

/**
 * Records in memory, numbered in the order they were appended. It grows in segments, so that nothing is copied when it
 * does, and may hold more than the two GiB of one array.
 *
 * To be closed once nobody reads it any more. The segments are then used by the next buffers of the process: memory
 * that is new for every task is zeroed first and then copied about by the collector.
 */
final class RecordBuffer extends AutoCloseable {
  import RecordBuffer._

  private var segments = Array.empty[Array[Byte]]
  // For reading numbers; the same arrays.
  private var views = Array.empty[ByteBuffer]
  private var filled = 0L

  /** The number of whole records. */
  def count: Int = (filled / Record.Bytes).toInt

  override def close(): Unit = {
    segments.foreach(unused.push)
    segments = Array.empty
    views = Array.empty
    filled = 0
  }

  /** Appends what is written to it. */
  val sink: OutputStream = new OutputStream {
    override def write(one: Int): Unit = write(Array(one.toByte), 0, 1)

    override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
      var done = 0
      while (done < length) {
        val room = math.min(length - done, roomInSegment())
        System.arraycopy(bytes, offset + done, segments.last, used, room)
        filled += room
        done += room
      }
    }
  }

  /** Appends the next `length` bytes of `in`; `EOFException` where it ends before. */
  def append(in: InputStream, length: Long): Unit = {
    val end = filled + length
    while (filled < end) {
      val room = math.min(end - filled, roomInSegment().toLong).toInt
      val read = in.read(segments.last, used, math.min(room, ReadBytes))
      if (read < 0) throw new EOFException(s"${end - filled} bytes of $length are missing")
      filled += read
    }
  }

  /** The key's first eight bytes, an unsigned number. */
  def prefix(record: Int): Long = views(record >>> SegmentBits).getLong(offset(record))

  /** The key's last two bytes. */
  def tail(record: Int): Int = views(record >>> SegmentBits).getShort(offset(record) + 8) & 0xffff

  /** By their keys, as unsigned bytes. */
  def compare(one: Int, other: Int): Int = {
    val first = java.lang.Long.compareUnsigned(prefix(one), prefix(other))
    if (first != 0) first else Integer.compare(tail(one), tail(other))
  }

  def copy(record: Int, target: Array[Byte], at: Int): Unit =
    System.arraycopy(segments(record >>> SegmentBits), offset(record), target, at, Record.Bytes)

  private def offset(record: Int): Int = (record & (SegmentRecords - 1)) * Record.Bytes

  /** The used bytes of the last segment. */
  private def used: Int = (filled - (segments.length - 1L) * SegmentBytes).toInt

  private def roomInSegment(): Int = {
    if (filled == segments.length.toLong * SegmentBytes) {
      val segment = Option(unused.poll()).getOrElse(new Array[Byte](SegmentBytes))
      segments :+= segment
      views :+= ByteBuffer.wrap(segment)
    }
    SegmentBytes - used
  }
}

object RecordBuffer {
  private val SegmentBits = 15
  private val SegmentRecords = 1 << SegmentBits
  private val SegmentBytes = SegmentRecords * Record.Bytes

  /** Never more than the process had in use at once. */
  private val unused = new ConcurrentLinkedDeque[Array[Byte]]

  /** Java reads a file through a native buffer of the size asked for; a small one is not allocated anew each time. */
  private val ReadBytes = 64 * 1024
}

/**
 * Blocks of records in the shuffle: partition, length, bytes. Spark's serializers would first copy each block into a
 * buffer of their own.
 */
final class BlockSerializer extends Serializer with Serializable {
  override def newInstance(): SerializerInstance = new BlockSerializerInstance
}

private final class BlockSerializerInstance extends SerializerInstance {
  override def serializeStream(out: OutputStream): SerializationStream = new BlockWriter(out)
  override def deserializeStream(in: InputStream): DeserializationStream = new BlockReader(in)

  override def serialize[T: ClassTag](value: T): ByteBuffer = streamsOnly()
  override def deserialize[T: ClassTag](bytes: ByteBuffer): T = streamsOnly()
  override def deserialize[T: ClassTag](bytes: ByteBuffer, loader: ClassLoader): T = streamsOnly()

  private def streamsOnly() = throw new UnsupportedOperationException("Blocks of records are for the shuffle alone.")
}

private final class BlockWriter(stream: OutputStream) extends SerializationStream {
  private val out = new DataOutputStream(stream)

  override def writeKey[T: ClassTag](partition: T): SerializationStream = {
    out.writeInt(partition.asInstanceOf[Int])
    this
  }

  override def writeValue[T: ClassTag](value: T): SerializationStream = {
    val block = value.asInstanceOf[RecordBlock]
    out.writeInt(Math.toIntExact(block.bytes))
    block.writeTo(out)
    this
  }

  override def writeObject[T: ClassTag](value: T): SerializationStream =
    throw new UnsupportedOperationException("The shuffle writes a partition and its block.")

  override def flush(): Unit = out.flush()
  override def close(): Unit = out.close()
}

/**
 * Blocks are not held: each is read from the stream when it is written on, which must be before the next is asked for.
 */
private final class BlockReader(stream: InputStream) extends DeserializationStream {
  private val in = new DataInputStream(stream)
  private val batch = Record.batch()
  private var last = Option.empty[Streamed]

  /** Throws `EOFException` at the end. */
  override def readKey[T: ClassTag](): T = {
    if (!last.forall(_.done)) throw new IllegalStateException("The block before this one was not read.")
    in.readInt().asInstanceOf[T]
  }

  override def readValue[T: ClassTag](): T = {
    val block = new Streamed(in, in.readInt().toLong, batch)
    last = Some(block)
    block.asInstanceOf[T]
  }

  override def readObject[T: ClassTag](): T =
    throw new UnsupportedOperationException("The shuffle reads a partition and its block.")

  override def close(): Unit = in.close()
}

/** Blocks of records one after the other in a file a task, committed by whatever committer the file system has. */
final class RecordOutputFormat extends FileOutputFormat[NullWritable, RecordBlock] {

  override def getRecordWriter(context: TaskAttemptContext): RecordWriter[NullWritable, RecordBlock] = {
    val file = getDefaultWorkFile(context, "")
    val out = file.getFileSystem(context.getConfiguration).create(file, false)
    new RecordWriter[NullWritable, RecordBlock] {
      override def write(nothing: NullWritable, block: RecordBlock): Unit = block.writeTo(out)
      override def close(context: TaskAttemptContext): Unit = out.close()
    }
  }
}

object RecordOutputFormat {

  /** A file for each partition, named in their order, visible all at once; fails where there is something already. */
  def save(blocks: RDD[RecordBlock], location: String): Unit =
    blocks
      .map(block => (NullWritable.get, block))
      .saveAsNewAPIHadoopFile(
        location,
        classOf[NullWritable],
        classOf[RecordBlock],
        classOf[RecordOutputFormat],
        blocks.sparkContext.hadoopConfiguration
      )
}
