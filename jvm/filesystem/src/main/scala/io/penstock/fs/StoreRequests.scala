package io.penstock.fs

import org.apache.hadoop.fs.s3a.S3AFileSystem
import org.apache.hadoop.fs.s3a.api.RequestFactory
import org.apache.hadoop.util.functional.CallableRaisingIOE
import software.amazon.awssdk.services.s3.S3Client

/** Single requests through S3A's own client, with the defaults (encryption, storage class) of its requests. */
final private[fs] class StoreRequests(fs: S3AFileSystem) {

  private val context = fs.createStoreContext()

  val requests: RequestFactory = context.getRequestFactory

  def deletesMany: Boolean = context.isMultiObjectDeleteEnabled

  def client: S3Client = fs.getS3AInternals.getAmazonS3Client("Penstock")

  /**
   * S3A's retries, and its errors. The call may be sent twice.
   *
   * @param key
   *   what S3A names where it fails
   */
  def retrying[A](action: String, key: String)(call: => A): A = {
    // S3A's auditing names the operation in the request's referrer, and complains of requests that belong to none.
    val span = fs.createSpan(action, key, null)
    try context.getInvoker.retry(action, key, true, (() => call): CallableRaisingIOE[A])
    finally span.close()
  }
}
