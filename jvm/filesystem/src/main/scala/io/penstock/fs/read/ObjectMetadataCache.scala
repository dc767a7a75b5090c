package io.penstock.fs.read

import java.io.IOException
import java.nio.channels.FileChannel
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.attribute.PosixFilePermissions
import java.nio.file.{Path, StandardOpenOption}
import java.nio.{ByteBuffer, MappedByteBuffer}
import java.util.concurrent.ConcurrentHashMap
import java.util.zip.CRC32C

import org.apache.commons.codec.digest.MurmurHash3
import org.slf4j.LoggerFactory

import io.penstock.fs.cache.Faults

/** What a caller knows of an object before it asks the store: `modified` in seconds, as stores compare it. */
final private[read] case class ObjectStatus(endpoint: String, bucket: String, key: String, length: Long, modified: Long)

/** Which version was seen under which status. Forgetting is always allowed; answering wrongly never is. */
private[read] trait ObjectMetadataCache {
  def get(status: ObjectStatus): Option[ObjectMetadata]

  /**
   * @param seen
   *   the store's clock when it answered with `etag`, in seconds
   * @param now
   *   this machine's clock, in milliseconds since 1970
   */
  def put(status: ObjectStatus, etag: String, seen: Long, now: Long): Unit

  def forget(status: ObjectStatus): Unit
}

/**
 * A table of fixed size in a file that every process of this node maps: a lookup reads a few slots and makes no system
 * call.
 *
 * A status belongs to one set of [[SlotsPerSet]] slots, where a new one overwrites the one seen longest ago. Nothing is
 * locked: every slot carries a checksum of its own, so that a half-written one, by two writers or by one that was
 * killed, is merely unknown. Entity tags longer than [[LongestTag]] bytes are not remembered.
 */
final private class ObjectMetadataFile(table: MappedByteBuffer) extends ObjectMetadataCache {
  import ObjectMetadataFile._

  @volatile private var broken = false

  override def get(status: ObjectStatus): Option[ObjectMetadata] = guarded(Option.empty[ObjectMetadata]) {
    val name = nameOf(status)
    slots(name).map(read).collectFirst {
      case Some(entry) if entry.name == name =>
        ObjectMetadata(
          entry.etag,
          ObjectMetadata.racy(status.key, status.modified, entry.seen, entry.etag),
          entry.confirmed
        )
    }
  }

  override def put(status: ObjectStatus, etag: String, seen: Long, now: Long): Unit = guarded(()) {
    val tag = etag.getBytes(UTF_8)
    if (tag.nonEmpty && tag.length <= LongestTag) {
      val name = nameOf(status)
      val ages = slots(name).map(slot => slot -> read(slot)).toVector
      val (slot, _) = ages.find(_._2.exists(_.name == name)).getOrElse(ages.minBy(_._2.fold(Long.MinValue)(_.seen)))
      write(slot, Entry(name, seen, now, etag))
    }
  }

  override def forget(status: ObjectStatus): Unit = guarded(()) {
    val name = nameOf(status)
    slots(name).filter(read(_).exists(_.name == name)).foreach(slot => table.put(slot, new Array[Byte](SlotBytes)))
  }

  private def slots(name: Name): Iterator[Int] = {
    val set = java.lang.Long.remainderUnsigned(name.low, Sets).toInt
    Iterator.range(0, SlotsPerSet).map(way => (set * SlotsPerSet + way) * SlotBytes)
  }

  private def read(slot: Int): Option[Entry] = {
    val copy = new Array[Byte](SlotBytes)
    table.get(slot, copy)
    val fields = ByteBuffer.wrap(copy)
    val checksum = fields.getInt()
    val length = fields.getInt()
    if (checksum != checksumOf(copy) || length <= 0 || length > LongestTag) None
    else {
      val name = Name(fields.getLong(), fields.getLong())
      Some(Entry(name, fields.getLong(), fields.getLong(), new String(copy, TagAt, length, UTF_8)))
    }
  }

  private def write(slot: Int, entry: Entry): Unit = {
    val tag = entry.etag.getBytes(UTF_8)
    val fields = ByteBuffer.allocate(SlotBytes)
    fields.putInt(0).putInt(tag.length).putLong(entry.name.high).putLong(entry.name.low)
    fields.putLong(entry.seen).putLong(entry.confirmed).put(tag)
    fields.putInt(0, checksumOf(fields.array))
    table.put(slot, fields.array)
  }

  private def guarded[T](otherwise: T)(work: => T): T =
    if (broken) otherwise
    else
      try {
        val answer = work
        Faults.surface()
        answer
      } catch {
        // What a mapping answers with when its file cannot grow (a full tmpfs) or was cut short.
        case e: InternalError =>
          broken = true
          Log.warn("The table of known objects cannot be used ({}): objects are asked for instead", e.getMessage)
          otherwise
      }
}

private object ObjectMetadataFile {

  private val Log = LoggerFactory.getLogger(classOf[ObjectMetadataCache])

  /** Part of every checksum: a change of the layout changes it, and old slots become unknown. */
  private val Layout = "penstock objects 2".getBytes(UTF_8)

  val SlotBytes = 128
  val SlotsPerSet = 8

  /** 65,536 objects in 8 MiB, of which a file system with holes stores what is used. */
  val Sets = 8192L

  val Bytes: Long = Sets * SlotsPerSet * SlotBytes

  private val TagAt = 40
  val LongestTag: Int = SlotBytes - TagAt

  final private case class Name(high: Long, low: Long)

  final private case class Entry(name: Name, seen: Long, confirmed: Long, etag: String)

  private def nameOf(status: ObjectStatus): Name = {
    import status._
    val hash = MurmurHash3.hash128x64(s"$endpoint\u0000$bucket\u0000$key\u0000$length\u0000$modified".getBytes(UTF_8))
    Name(hash(0), hash(1))
  }

  private def checksumOf(slot: Array[Byte]): Int = {
    val checksum = new CRC32C
    checksum.update(Layout)
    checksum.update(slot, 4, slot.length - 4)
    checksum.getValue.toInt
  }
}

private[read] object ObjectMetadataCache {

  /** Remembers nothing. */
  object None extends ObjectMetadataCache {
    override def get(status: ObjectStatus): Option[ObjectMetadata] = Option.empty
    override def put(status: ObjectStatus, etag: String, seen: Long, now: Long): Unit = ()
    override def forget(status: ObjectStatus): Unit = ()
  }

  private val opened = new ConcurrentHashMap[Path, ObjectMetadataCache]

  /**
   * The table in the first of `directories` that takes it, shared by all who ask in this JVM; one that remembers
   * nothing if none does.
   */
  def in(directories: Seq[Path]): ObjectMetadataCache =
    directories.iterator.map(_.resolve("objects").toAbsolutePath).map(at).find(_ ne None).getOrElse(None)

  private def at(file: Path): ObjectMetadataCache =
    opened.computeIfAbsent(
      file,
      _ =>
        try open(file)
        catch { case _: IOException => None }
    )

  private def open(file: Path): ObjectMetadataCache = {
    val options = java.util.Set.of(StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE)
    val ownersOnly = PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"))
    val channel = FileChannel.open(file, options, ownersOnly)
    try new ObjectMetadataFile(channel.map(FileChannel.MapMode.READ_WRITE, 0, ObjectMetadataFile.Bytes))
    finally channel.close()
  }
}
