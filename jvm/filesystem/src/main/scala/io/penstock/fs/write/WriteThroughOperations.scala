package io.penstock.fs.write

import java.io.InputStream
import java.nio.ByteBuffer
import java.security.MessageDigest
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger
import java.util.{List => JavaList}

import scala.collection.concurrent.TrieMap
import scala.util.Using
import scala.util.control.NonFatal

import org.apache.commons.codec.DecoderException
import org.apache.commons.codec.binary.Hex
import org.apache.hadoop.fs.s3a.Invoker.Retried
import org.apache.hadoop.fs.s3a.S3ADataBlocks.BlockUploadData
import org.apache.hadoop.fs.s3a.impl.PutObjectOptions
import org.apache.hadoop.fs.s3a.impl.UploadContentProviders.BaseContentProvider
import org.apache.hadoop.fs.s3a.{S3AFileSystem, WriteOperationHelper}
import org.apache.hadoop.fs.statistics.DurationTrackerFactory
import org.slf4j.LoggerFactory
import software.amazon.awssdk.core.sync.RequestBody
import software.amazon.awssdk.services.s3.model._

import io.penstock.fs.cache.{ObjectVersion, PageCache}
import io.penstock.fs.store.EntityTag

/**
 * S3A's operations of one output stream, which show the writer's bytes and the store's answers to [[WrittenPages]]. All
 * work is done by S3A: the stream, its capabilities and its statistics stay what they are.
 */
final private[fs] class WriteThroughOperations(s3a: WriteOperationHelper, owner: S3AFileSystem, cache: PageCache)
    extends ForwardingWriteOperations(s3a, owner) {

  private val pages = new WrittenPages(cache)

  /** Uploads that are neither complete nor aborted, by their identifier: a stream has one at most. */
  private val uploads = TrieMap.empty[String, PartialObject]

  /** Those that came to nothing. */
  private val abandoned = ConcurrentHashMap.newKeySet[String]()

  private def abandon(upload: String): Unit = {
    abandoned.add(upload)
    uploads.remove(upload).foreach(pages.drop)
  }

  override def putObject(
      request: PutObjectRequest,
      options: PutObjectOptions,
      data: BlockUploadData,
      durations: DurationTrackerFactory
  ): PutObjectResponse = {
    val response = super.putObject(request, options, data, durations)
    val content = data.getContentProvider
    for (etag <- EntityTag.strong(response.eTag))
      pages.keep(ObjectVersion(owner.getBucket, request.key, content.getSize.toLong, etag), content.newStream())
    response
  }

  override def uploadPart(
      request: UploadPartRequest,
      body: RequestBody,
      durations: DurationTrackerFactory
  ): UploadPartResponse = {
    val response = super.uploadPart(request, body, durations)
    (EntityTag.strong(response.eTag), body.contentStreamProvider) match {
      // The block of a stream can be read once more; what others upload is gone.
      case (Some(etag), block: BaseContentProvider[_]) =>
        val last = request.sdkPartType == SdkPartType.LAST
        val upload = uploaded(request, UploadedPart(block.getSize.toLong, etag, last))
        pages.keep(upload.name(request.partNumber), block.newStream())
        // Given up while this part was on its way, when its pages were not there yet to be dropped.
        if (abandoned.contains(request.uploadId)) abandon(request.uploadId)
      case _ => ()
    }
    response
  }

  /** Parts go up in several threads. */
  private def uploaded(request: UploadPartRequest, part: UploadedPart): PartialObject = synchronized {
    val before = uploads.getOrElse(request.uploadId, PartialObject(owner.getBucket, request.key, request.uploadId))
    val after = before + (request.partNumber.toInt -> part)
    uploads.put(request.uploadId, after)
    after
  }

  override def completeMPUwithRetries(
      key: String,
      upload: String,
      parts: JavaList[CompletedPart],
      length: Long,
      errors: AtomicInteger,
      options: PutObjectOptions
  ): CompleteMultipartUploadResponse = {
    val response = super.completeMPUwithRetries(key, upload, parts, length, errors, options)
    for (done <- uploads.remove(upload)) {
      // Ceph 16 gives the object a tag, but names none in its answer.
      val isTagged = Option(response.eTag).exists(_.nonEmpty)
      val version = if (isTagged) EntityTag.strong(response.eTag).flatMap(done.completed) else done.predicted
      settle(done, version, length)
    }
    response
  }

  override def abortMultipartUpload(key: String, upload: String, retry: Boolean, retried: Retried): Unit = {
    abandon(upload)
    super.abortMultipartUpload(key, upload, retry, retried)
  }

  override def writeFailed(e: Exception): Unit = {
    uploads.keysIterator.foreach(abandon)
    super.writeFailed(e)
  }

  /** A committer's file is closed before its upload is completed, and that is done in another process. */
  override def writeSuccessful(length: Long): Unit = {
    for (done <- takeAll()) settle(done, done.predicted, length)
    super.writeSuccessful(length)
  }

  /** The parts are this version, if there is one and it has the length that was written. */
  private def settle(done: PartialObject, version: Option[ObjectVersion], length: Long): Unit =
    version.filter(_.length == length) match {
      case Some(version) => pages.move(done, version)
      case None => pages.drop(done)
    }

  private def takeAll(): Vector[PartialObject] = uploads.keysIterator.toVector.flatMap(uploads.remove)
}

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
  def keep(version: ObjectVersion, data: => InputStream): Unit = unlessFailing(version) {
    if (cache.keeps) Using.resource(data) { in =>
      assembly(version).add(version.length) { (_, into) =>
        in.readNBytes(into.array, into.arrayOffset, into.capacity) == into.capacity
      }
    }
  }

  /** The parts are this object now. */
  def move(upload: PartialObject, version: ObjectVersion): Unit = unlessFailing(version) {
    if (upload.inOrder.init.forall { case (_, part) => part.length % cache.pageSize == 0 }) rename(upload, version)
    else copy(upload, version)
  }

  /** Each page of a part is one of the object: as S3A's part sizes are, but for the smallest and odd ones. */
  private def rename(upload: PartialObject, version: ObjectVersion): Unit = {
    var first = 0L
    for ((number, part) <- upload.inOrder) {
      val (name, pages) = (upload.name(number), (part.length + cache.pageSize - 1) / cache.pageSize)
      if (name != version)
        for (index <- 0L until pages) cache.rename(name, index, version, first + index)
      first += pages
    }
  }

  private def copy(upload: PartialObject, version: ObjectVersion): Unit = {
    val pages = assembly(version)
    for ((number, part) <- upload.inOrder; name = upload.name(number) if name != version) {
      pages.add(part.length)(read(name, _, _))
      cache.forget(name)
    }
  }

  /** The parts will never be an object. */
  def drop(upload: PartialObject): Unit = upload.parts.keysIterator.map(upload.name).foreach(cache.forget)

  private def assembly(version: ObjectVersion) =
    new PageAssembly(version.length, cache.pageSize, cache.keep(version, _, _))

  /** Fills the buffer from the pages of a part, of which a page of the object may need two. */
  private def read(name: ObjectVersion, position: Long, into: ByteBuffer): Boolean = {
    val within = (position % cache.pageSize).toInt
    val size = into.remaining.min(cache.pageSize - within)
    val found = cache.find(name, position / cache.pageSize).exists { page =>
      Using.resource(page)(_.read(within, into.slice(into.position(), size)))
    }
    found && (size == into.remaining ||
      read(name, position + size, into.slice(into.position() + size, into.remaining - size)))
  }

  private def unlessFailing(version: ObjectVersion)(work: => Unit): Unit =
    try work
    catch {
      case NonFatal(e) => Log.warn(s"The pages written to s3a://${version.bucket}/${version.key} are not kept", e)
    }
}

private object WrittenPages {
  private val Log = LoggerFactory.getLogger(classOf[WrittenPages])
}

/**
 * Cuts the bytes of an object, handed over in order and in pieces of any size, into its pages. Holds one page.
 *
 * @param length
 *   of the object, in bytes
 * @param keep
 *   takes a page by its index; the buffer is used again after it returns
 */
final private[write] class PageAssembly(length: Long, pageSize: Int, keep: (Long, ByteBuffer) => Unit) {

  private val page = ByteBuffer.allocate(length.min(pageSize.toLong).toInt)
  private var position = 0L
  private var whole = true

  /**
   * The next `count` bytes.
   *
   * @param copy
   *   fills the buffer with the bytes from this position of the piece on; false if it cannot, and then no page that
   *   holds any of them is kept
   */
  def add(count: Long)(copy: (Long, ByteBuffer) => Boolean): Unit = {
    var done = 0L
    while (done < count) {
      val size = page.remaining.toLong.min(count - done).toInt
      val end = page.position() + size
      whole = copy(done, page.slice(page.position(), size)) && whole
      page.position(end)
      done += size
      position += size
      if (!page.hasRemaining || position == length) finishPage()
    }
  }

  private def finishPage(): Unit = {
    page.flip()
    if (whole) keep((position - 1) / pageSize, page)
    page.clear()
    whole = true
  }
}

/**
 * A part that the store has taken.
 *
 * @param length
 *   in bytes
 * @param etag
 *   without quotes
 * @param last
 *   whether the writer said that no other follows it
 */
final private[write] case class UploadedPart(length: Long, etag: String, last: Boolean)

/**
 * A multipart upload, and the parts of it that the store has taken, by their number from 1. It has no version before it
 * is complete, but its pages need a name before.
 */
final private[write] case class PartialObject(
    bucket: String,
    key: String,
    id: String,
    parts: Map[Int, UploadedPart] = Map.empty
) {

  def +(numbered: (Int, UploadedPart)): PartialObject = copy(parts = parts + numbered)

  def inOrder: Vector[(Int, UploadedPart)] = parts.toVector.sortBy(_._1)

  /** What the pages of a part are kept under: a name that no reader asks for, unless it is the object's own already. */
  def name(number: Int): ObjectVersion = {
    val part = parts(number)
    val only = if (number == 1 && part.last) PartialObject(bucket, key, id, Map(1 -> part)).predicted else None
    only.getOrElse(ObjectVersion(bucket, key, part.length, s"$id/$number"))
  }

  /** The object that these parts are, once the store has given it this tag; none if one of them is missing. */
  def completed(etag: String): Option[ObjectVersion] =
    if (parts.isEmpty || inOrder.map(_._1) != Vector.range(1, parts.size + 1)) None
    else Some(ObjectVersion(bucket, key, parts.valuesIterator.map(_.length).sum, etag))

  /**
   * The object that these parts will be where the store tags objects as Amazon's does: with the MD5 of the parts' MD5s
   * one after the other, in hexadecimal digits, a dash and the number of parts. None where a part's tag is no MD5, as
   * with some kinds of encryption. With a store that does otherwise nobody ever asks for this object.
   */
  def predicted: Option[ObjectVersion] =
    try {
      val digest = MessageDigest.getInstance("MD5")
      inOrder.foreach { case (_, part) =>
        val hash = Hex.decodeHex(part.etag)
        if (hash.length != digest.getDigestLength) throw new DecoderException
        digest.update(hash)
      }
      completed(s"${Hex.encodeHexString(digest.digest())}-${parts.size}")
    } catch { case _: DecoderException => None }
}
