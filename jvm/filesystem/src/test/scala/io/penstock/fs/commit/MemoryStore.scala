package io.penstock.fs.commit

import java.io.IOException

import scala.collection.immutable.{SortedMap, TreeMap}

import org.apache.commons.codec.binary.Hex
import org.apache.commons.codec.digest.DigestUtils

/**
 * A store with exactly the promises that a commit relies on: one object at a time, and one winner of a creation.
 *
 * @param conditional
 *   false for a store that does not keep the second promise
 * @param opaqueTags
 *   whether entity tags say nothing of the parts, as those of encrypted objects
 */
final class MemoryStore(conditional: Boolean = true, opaqueTags: Boolean = false) {

  var objects: SortedMap[String, Array[Byte]] = TreeMap.empty
  var pending: Map[String, PendingUpload] = Map.empty

  private var uploads = 0
  private var time = 0L
  private var tags = Map.empty[String, String].withDefaultValue("")
  private var modified = Map.empty[String, Long].withDefaultValue(0L)

  /** A task's write: the file is there, and nobody sees it. */
  def upload(key: String): Upload = synchronized {
    uploads += 1
    val id = s"upload-$uploads"
    pending += id -> PendingUpload(key, id, 0)
    Upload(MemoryStore.Name, key, id, Vector(Part(DigestUtils.md5Hex(id), None, None)), 1)
  }

  /** The time by a clock that goes wrong by so many milliseconds; every pause of one process passes for all. */
  private[commit] def clock(wrongBy: Long = 0): Clock = new Clock {
    override def now: Long = elapsed + wrongBy
    override def elapsed: Long = MemoryStore.this.synchronized(time)
    override def sleep(pause: Long): Unit = MemoryStore.this.synchronized(time += pause)
  }

  /** As S3 makes it of an upload's parts. */
  private def tagOf(upload: Upload): String = {
    val sums = upload.parts.map(part => Hex.decodeHex(part.etag))
    s"${DigestUtils.md5Hex(sums.reduce(_ ++ _))}-${sums.size}"
  }

  /** Whether the object is what completing the upload has made. */
  def holds(upload: Upload): Boolean = synchronized(objects.contains(upload.key) && tags(upload.key) == tagOf(upload))

  def keys: Set[String] = synchronized(objects.keySet.toSet)

  /** A write by somebody who knows nothing of commits. */
  private[commit] def drop(key: String): Unit = synchronized(objects -= key)

  private[commit] def abort(upload: PendingUpload): Unit = synchronized(pending -= upload.id)

  /** Creations whose senders have given up, and which the store has not received yet. */
  private var underWay = Vector.empty[(String, Array[Byte])]

  /** What is under way arrives. */
  def arrive(): Unit = synchronized {
    underWay.foreach { case (key, content) => if (!objects.contains(key)) put(key, content) }
    underWay = Vector.empty
  }

  private def put(key: String, content: Array[Byte]): Unit = {
    objects += key -> content
    tags -= key
    modified += key -> time
  }

  /**
   * The store as one process sees it. `before` and `after` each operation may throw.
   *
   * @param late
   *   whether a creation fails for its sender, and takes effect at the next [[arrive]]
   */
  private[commit] def bucket(
      before: String => Unit = _ => (),
      after: String => Unit = _ => (),
      late: String => Boolean = _ => false
  ): ObjectStore = new MemoryBucket(before, after, late)

  final private class MemoryBucket(before: String => Unit, after: String => Unit, late: String => Boolean)
      extends ObjectStore {

    private def operation[A](name: String)(work: => A): A = {
      before(name)
      val result = MemoryStore.this.synchronized(work)
      after(name)
      result
    }

    override def name: String = MemoryStore.Name

    override def list(prefix: String): Iterator[Listed] = operation(s"list $prefix") {
      objects
        .iteratorFrom(prefix)
        .takeWhile(_._1.startsWith(prefix))
        .map { case (k, v) => Listed(k, v.length.toLong, modified(k)) }
        .toVector
        .iterator
    }

    override def entityTag(key: String): Option[String] = operation(s"exists $key") {
      Option.when(objects.contains(key))(if (opaqueTags) s"opaque ${modified(key)}" else tags(key))
    }

    override def read(key: String): Option[Array[Byte]] = operation(s"read $key")(objects.get(key))

    override def write(key: String, content: Array[Byte]): Unit =
      operation(s"write $key")(put(key, content))

    override def create(key: String, content: Array[Byte]): Boolean = operation(s"create $key") {
      if (late(key)) {
        underWay :+= key -> content
        throw new MemoryStore.ReplyLost
      }
      val free = !conditional || !objects.contains(key)
      if (free) put(key, content)
      free
    }

    override def delete(keys: Seq[String]): Unit = operation(s"delete ${keys.mkString(" ")}")(objects --= keys)

    override def complete(upload: Upload): Boolean = operation(s"complete ${upload.key}") {
      val known = pending.contains(upload.id)
      if (known) {
        pending -= upload.id
        put(upload.key, Array[Byte](1))
        tags += upload.key -> tagOf(upload)
      }
      known
    }

    override def abort(key: String, uploadId: String): Unit = operation(s"abort $key")(pending -= uploadId)

    override def uploads(prefix: String): Iterator[PendingUpload] = operation(s"uploads $prefix") {
      pending.values.filter(_.key.startsWith(prefix)).toVector.iterator
    }

    override def uploadedBytes(upload: PendingUpload): Long = operation(s"parts ${upload.key}")(1L)
  }
}

object MemoryStore {

  val Name = "lake"

  /** The process is gone: nothing it would have done after this happens. */
  final class Killed extends Error("killed")

  final class ReplyLost extends IOException("the reply was lost")
}
