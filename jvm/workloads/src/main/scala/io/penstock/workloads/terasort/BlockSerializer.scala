package io.penstock.workloads.terasort

import java.io.{DataInputStream, DataOutputStream, EOFException, InputStream, OutputStream}
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

private final class BlockReader(stream: InputStream) extends DeserializationStream {
  private val in = new DataInputStream(stream)

  /** Where there is no more, this is the end. */
  override def readKey[T: ClassTag](): T = in.readInt().asInstanceOf[T]

  override def readObject[T: ClassTag](): T =
    throw new UnsupportedOperationException("The shuffle reads a partition and its block.")

  override def readValue[T: ClassTag](): T = {
    val bytes = new Array[Byte](in.readInt())
    var read = 0
    while (read < bytes.length) {
      // Java reads a file through a native buffer of the size asked for; a small one is not allocated anew each time.
      val more = in.read(bytes, read, math.min(bytes.length - read, BlockReader.AtOnce))
      if (more < 0) throw new EOFException(s"${bytes.length - read} bytes of a block are missing")
      read += more
    }
    new Contiguous(bytes).asInstanceOf[T]
  }

  override def close(): Unit = in.close()
}

private object BlockReader {
  val AtOnce: Int = 64 * 1024
}
