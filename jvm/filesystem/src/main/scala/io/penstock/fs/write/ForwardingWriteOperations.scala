package io.penstock.fs.write

import java.util.concurrent.atomic.AtomicInteger
import java.util.{List => JavaList}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.Invoker.Retried
import org.apache.hadoop.fs.s3a.S3ADataBlocks.BlockUploadData
import org.apache.hadoop.fs.s3a.api.RequestFactory
import org.apache.hadoop.fs.s3a.impl.PutObjectOptions
import org.apache.hadoop.fs.s3a.statistics.impl.EmptyS3AStatisticsContext
import org.apache.hadoop.fs.s3a.{S3AFileSystem, WriteOperationHelper}
import org.apache.hadoop.fs.statistics.DurationTrackerFactory
import org.apache.hadoop.fs.store.audit.AuditSpan
import org.apache.hadoop.util.functional.CallableRaisingIOE
import software.amazon.awssdk.core.sync.RequestBody
import software.amazon.awssdk.services.s3.model._

/**
 * Hands every call but `createSpan`, which is the same everywhere, to the operations that S3A made itself. S3A asks for
 * this class and not for an interface, and only its own file system can make one that works.
 */
private[write] class ForwardingWriteOperations(s3a: WriteOperationHelper, owner: S3AFileSystem)
    extends WriteOperationHelper(
      owner,
      owner.getConf,
      new EmptyS3AStatisticsContext,
      owner.getAuditSpanSource,
      s3a.getAuditSpan,
      null
    ) {

  override def retry[T](action: String, path: String, idempotent: Boolean, operation: CallableRaisingIOE[T]): T =
    s3a.retry(action, path, idempotent, operation)

  override def getAuditSpan: AuditSpan = s3a.getAuditSpan

  override def createPutObjectRequest(key: String, length: Long, options: PutObjectOptions): PutObjectRequest =
    s3a.createPutObjectRequest(key, length, options)

  override def writeSuccessful(length: Long): Unit = s3a.writeSuccessful(length)

  override def writeFailed(e: Exception): Unit = s3a.writeFailed(e)

  override def initiateMultiPartUpload(key: String, options: PutObjectOptions): String =
    s3a.initiateMultiPartUpload(key, options)

  override def completeMPUwithRetries(
      key: String,
      upload: String,
      parts: JavaList[CompletedPart],
      length: Long,
      errors: AtomicInteger,
      options: PutObjectOptions
  ): CompleteMultipartUploadResponse = s3a.completeMPUwithRetries(key, upload, parts, length, errors, options)

  override def abortMultipartUpload(key: String, upload: String, retry: Boolean, retried: Retried): Unit =
    s3a.abortMultipartUpload(key, upload, retry, retried)

  override def abortMultipartUpload(upload: MultipartUpload): Unit = s3a.abortMultipartUpload(upload)

  override def abortMultipartUploadsUnderPath(prefix: String): Int = s3a.abortMultipartUploadsUnderPath(prefix)

  override def listMultipartUploads(prefix: String): JavaList[MultipartUpload] = s3a.listMultipartUploads(prefix)

  override def abortMultipartCommit(key: String, upload: String): Unit = s3a.abortMultipartCommit(key, upload)

  override def newUploadPartRequestBuilder(
      key: String,
      upload: String,
      number: Int,
      last: Boolean,
      size: Long
  ): UploadPartRequest.Builder = s3a.newUploadPartRequestBuilder(key, upload, number, last, size)

  override def putObject(
      request: PutObjectRequest,
      options: PutObjectOptions,
      data: BlockUploadData,
      durations: DurationTrackerFactory
  ): PutObjectResponse = s3a.putObject(request, options, data, durations)

  override def revertCommit(key: String): Unit = s3a.revertCommit(key)

  override def commitUpload(
      key: String,
      upload: String,
      parts: JavaList[CompletedPart],
      length: Long
  ): CompleteMultipartUploadResponse = s3a.commitUpload(key, upload, parts, length)

  override def uploadPart(
      request: UploadPartRequest,
      body: RequestBody,
      durations: DurationTrackerFactory
  ): UploadPartResponse = s3a.uploadPart(request, body, durations)

  override def getConf: Configuration = s3a.getConf

  override def incrementWriteOperations(): Unit = s3a.incrementWriteOperations()

  override def close(): Unit = s3a.close()

  override def getRequestFactory: RequestFactory = s3a.getRequestFactory

  override def toString: String = s3a.toString
}
