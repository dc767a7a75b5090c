package io.penstock.workloads.terasort

import java.io.{DataInputStream, DataOutputStream, InputStream, OutputStream}
import java.nio.ByteBuffer

import scala.reflect.ClassTag

import org.apache.spark.serializer.{DeserializationStream, SerializationStream, Serializer, SerializerInstance}

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

  /** Where there is no more, `EOFException` tells so. */
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
