package io.penstock.fs.write

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger
import java.util.{List => JavaList}

import scala.collection.concurrent.TrieMap

import org.apache.hadoop.fs.s3a.Invoker.Retried
import org.apache.hadoop.fs.s3a.S3ADataBlocks.BlockUploadData
import org.apache.hadoop.fs.s3a.impl.PutObjectOptions
import org.apache.hadoop.fs.s3a.impl.UploadContentProviders.BaseContentProvider
import org.apache.hadoop.fs.s3a.{S3AFileSystem, WriteOperationHelper}
import org.apache.hadoop.fs.statistics.DurationTrackerFactory
import software.amazon.awssdk.core.sync.RequestBody
import software.amazon.awssdk.services.s3.model._

import io.penstock.fs.EntityTag
import io.penstock.fs.cache.{ObjectIdentity, PageCache}

/**
 * S3A's operations of one output stream, which show the writer's bytes and the store's answers to [[WrittenPages]]. All
 * work is done by S3A: the stream, its capabilities and its statistics stay what they are.
 */
final private[fs] class WatchedWrites(s3a: WriteOperationHelper, owner: S3AFileSystem, cache: PageCache)
    extends DelegatedWrites(s3a, owner) {

  private val pages = new WrittenPages(cache)

  /** Uploads that are neither complete nor aborted, by their identifier: a stream has one at most. */
  private val uploads = TrieMap.empty[String, Upload]

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
      pages.keep(ObjectIdentity(owner.getBucket, request.key, content.getSize.toLong, etag), content.newStream())
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
  private def uploaded(request: UploadPartRequest, part: UploadedPart): Upload = synchronized {
    val before = uploads.getOrElse(request.uploadId, Upload(owner.getBucket, request.key, request.uploadId))
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
    for (done <- uploads.remove(upload))
      EntityTag.strong(response.eTag).flatMap(done.completed).filter(_.length == length) match {
        case Some(identity) => pages.move(done, identity)
        case None => pages.drop(done)
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
    for (done <- takeAll()) done.predicted.filter(_.length == length) match {
      case Some(identity) => pages.move(done, identity)
      case None => pages.drop(done)
    }
    super.writeSuccessful(length)
  }

  private def takeAll(): Vector[Upload] = uploads.keysIterator.toVector.flatMap(uploads.remove)
}
