package io.penstock.catalog

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}
import java.nio.ByteBuffer
import java.util
import java.util.zip.{DeflaterOutputStream, InflaterInputStream}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.io.{Text, WritableUtils}
import org.apache.iceberg.hadoop.HadoopFileIO
import org.apache.iceberg.inmemory.InMemoryInputFile
import org.apache.iceberg.io.{InputFile, SeekableInputStream}
import org.apache.iceberg.util.SerializableSupplier

/**
 * The files of Iceberg's tables, of which a process reads each small file of metadata once.
 *
 * A table's state is the metadata file that the metastore names, and every statement asks the metastore. Files of
 * metadata do not change: their names have a UUID, and what has none is read every time. So whatever another engine has
 * committed is seen, while planning sends no request for what was read before.
 *
 * Spark sends a copy of it to the executors for each scan, and again for each new plan of adaptive execution.
 */
final class MetadataFileIO extends HadoopFileIO {
  override def setConf(conf: Configuration): Unit = {
    super.setConf(conf)
    serializeConfWith(new SentConfiguration(_))
  }

  override def newInputFile(location: String): InputFile = MetadataFiles.shared.of(super.newInputFile(location))

  override def newInputFile(location: String, length: Long): InputFile =
    MetadataFiles.shared.of(super.newInputFile(location, length), length)
}

/**
 * The contents of files that do not change, the most recently used ones first. Thread-safe: two threads that read a
 * file at once both read it.
 *
 * @param budget
 *   the most bytes that are kept, and eight times those of one file
 */
private[catalog] final class MetadataFiles(budget: Long) {
  import MetadataFiles.Immutable

  private val largest = (budget / 8).min(Int.MaxValue - 8).toInt
  private var held = 0L
  private val contents = new util.LinkedHashMap[String, Array[Byte]](16, 0.75f, true)

  /**
   * The file, whose content is kept once it was read.
   *
   * @param length
   *   its length where that is known without a request
   */
  def of(file: InputFile, length: Long = 0): InputFile =
    if (length <= largest && Immutable.matches(file.location)) new Kept(file) else file

  private def found(location: String): Option[Array[Byte]] = contents.synchronized(Option(contents.get(location)))

  private def keep(location: String, content: Array[Byte]): Unit = contents.synchronized {
    if (contents.put(location, content) == null) held += content.length
    val oldest = contents.entrySet.iterator
    while (held > budget && oldest.hasNext) {
      held -= oldest.next().getValue.length
      oldest.remove()
    }
  }

  private final class Kept(file: InputFile) extends InputFile {
    override def location(): String = file.location
    override def exists(): Boolean = file.exists()
    override def getLength: Long = found(location).fold(file.getLength)(_.length)

    override def newStream(): SeekableInputStream =
      found(location).orElse(read()).fold(file.newStream())(content => new InMemoryInputFile(content).newStream())

    /** None for a file that is too large to keep. */
    private def read(): Option[Array[Byte]] = {
      val content = Using.resource(file.newStream())(_.readNBytes(largest + 1))
      Option.when(content.length <= largest) {
        keep(location, content)
        content
      }
    }
  }
}

private[catalog] object MetadataFiles {

  /** Metadata of tables and views, lists of manifests, and manifests, as every writer of Iceberg's names them. */
  private val Immutable =
    """.*/metadata/[^/]*\p{XDigit}{8}(-\p{XDigit}{4}){3}-\p{XDigit}{12}[^/]*\.(metadata\.json|avro)""".r

  private val Most = 64L << 20

  /** A process has one identity towards its store, so that all its catalogs may share what was read. */
  lazy val shared = new MetadataFiles(Most.min(Runtime.getRuntime.maxMemory / 16))
}

/**
 * A configuration that is written once, however often it is sent, and made once in each process that receives it.
 *
 * Hadoop's has more than a thousand settings. Iceberg's own form of it writes each of them whenever it is sent, and
 * sets each of them in every copy that an executor uses.
 *
 * @param content
 *   the settings as they were when this was made
 */
private[catalog] final class SentConfiguration private (
    content: Array[Byte],
    @transient @volatile private var known: Configuration
) extends SerializableSupplier[Configuration] {

  def this(conf: Configuration) = this(SentConfiguration.written(conf), conf)

  override def get(): Configuration = {
    if (known == null) known = SentConfiguration.shared(content)
    known
  }
}

private[catalog] object SentConfiguration {

  /** As many as the sessions of an application that run at once, mostly; a session beyond them makes its own again. */
  private val Most = 16

  private val received = new util.LinkedHashMap[ByteBuffer, Configuration](Most, 0.75f, true) {
    override def removeEldestEntry(eldest: util.Map.Entry[ByteBuffer, Configuration]): Boolean = size > Most
  }

  private def written(conf: Configuration): Array[Byte] = {
    val settings = conf.asScala.toSeq
    val bytes = new ByteArrayOutputStream
    Using.resource(new DataOutputStream(new DeflaterOutputStream(bytes))) { out =>
      WritableUtils.writeVInt(out, settings.size)
      for (setting <- settings) {
        Text.writeString(out, setting.getKey)
        Text.writeString(out, setting.getValue)
      }
    }
    bytes.toByteArray
  }

  private def shared(content: Array[Byte]): Configuration = received.synchronized {
    received.computeIfAbsent(
      ByteBuffer.wrap(content),
      _ => {
        val conf = new Configuration(false)
        Using.resource(new DataInputStream(new InflaterInputStream(new ByteArrayInputStream(content)))) { in =>
          for (_ <- 1 to WritableUtils.readVInt(in)) conf.set(Text.readString(in), Text.readString(in))
        }
        conf
      }
    )
  }
}
