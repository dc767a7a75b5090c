package io.penstock.fs.write

import java.io.InputStream
import java.nio.ByteBuffer

import scala.util.Using
import scala.util.control.NonFatal

import org.slf4j.LoggerFactory

import io.penstock.fs.cache.{ObjectIdentity, PageCache}

/**
 * Leaves the pages of what a writer has stored in the cache, from the bytes it still holds when the store has answered:
 * only then is the version known, and nothing is kept of a write that failed.
 *
 * A large object goes up in parts, before its version is known. The pages of a part wait in the cache under a name of
 * their own and move at the end; those of a writer that died are evicted as any that nobody asks for.
 *
 * Never fails: what cannot be kept is not kept.
 */
final private[write] class WrittenPages(cache: PageCache) {
  import WrittenPages._

  /**
   * The store has taken these bytes.
   *
   * @param data
   *   from their beginning; it is closed
   */
  def keep(identity: ObjectIdentity, data: => InputStream): Unit = unlessFailing(identity) {
    if (cache.keeps) Using.resource(data) { in =>
      assembly(identity).add(identity.length) { (_, into) =>
        in.readNBytes(into.array, into.arrayOffset, into.capacity) == into.capacity
      }
    }
  }

  /** The parts are this object now. */
  def move(upload: Upload, identity: ObjectIdentity): Unit = unlessFailing(identity) {
    if (upload.inOrder.init.forall { case (_, part) => part.length % cache.pageSize == 0 }) rename(upload, identity)
    else copy(upload, identity)
  }

  /** Each page of a part is one of the object: as S3A's part sizes are, but for the smallest and odd ones. */
  private def rename(upload: Upload, identity: ObjectIdentity): Unit = {
    var first = 0L
    for ((number, part) <- upload.inOrder) {
      val (name, pages) = (upload.name(number), (part.length + cache.pageSize - 1) / cache.pageSize)
      if (name != identity)
        for (index <- 0L until pages) cache.rename(name, index, identity, first + index)
      first += pages
    }
  }

  private def copy(upload: Upload, identity: ObjectIdentity): Unit = {
    val pages = assembly(identity)
    for ((number, part) <- upload.inOrder; name = upload.name(number) if name != identity) {
      pages.add(part.length)(read(name, _, _))
      cache.forget(name)
    }
  }

  /** The parts will never be an object. */
  def drop(upload: Upload): Unit = upload.parts.keysIterator.map(upload.name).foreach(cache.forget)

  private def assembly(identity: ObjectIdentity) =
    new PageAssembly(identity.length, cache.pageSize, cache.keep(identity, _, _))

  /** Fills the buffer from the pages of a part, of which a page of the object may need two. */
  private def read(name: ObjectIdentity, position: Long, into: ByteBuffer): Boolean = {
    val within = (position % cache.pageSize).toInt
    val size = into.remaining.min(cache.pageSize - within)
    val found = cache.find(name, position / cache.pageSize).exists { page =>
      Using.resource(page)(_.read(within, into.slice(into.position(), size)))
    }
    found && (size == into.remaining ||
      read(name, position + size, into.slice(into.position() + size, into.remaining - size)))
  }

  private def unlessFailing(identity: ObjectIdentity)(work: => Unit): Unit =
    try work
    catch {
      case NonFatal(e) => Log.warn(s"The pages written to s3a://${identity.bucket}/${identity.key} are not kept", e)
    }
}

private object WrittenPages {
  private val Log = LoggerFactory.getLogger(classOf[WrittenPages])
}
