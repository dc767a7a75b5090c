package io.penstock.fs

import java.io.IOException

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.s3a.S3AFileSystem
import org.apache.hadoop.fs.s3a.api.RequestFactory
import org.apache.hadoop.util.functional.CallableRaisingIOE
import software.amazon.awssdk.services.s3.S3Client
import software.amazon.awssdk.services.s3.model.ObjectIdentifier

/** Single requests through S3A's own client, with the defaults (encryption, storage class) of its requests. */
final private[fs] class StoreRequests(fs: S3AFileSystem) {

  private val context = fs.createStoreContext()

  val requests: RequestFactory = context.getRequestFactory

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

  /** In the order given: one request for each 1,000 where the store takes that. What is not there is no failure. */
  def delete(keys: Seq[String]): Unit = keys match {
    case Seq() => ()
    case Seq(key) =>
      retrying("delete", key)(client.deleteObject(requests.newDeleteObjectRequestBuilder(key).build()))
      ()
    case many if context.isMultiObjectDeleteEnabled => many.grouped(StoreRequests.PageSize).foreach(deletePage)
    case many => many.foreach(key => delete(Seq(key)))
  }

  private def deletePage(keys: Seq[String]): Unit = retrying("delete", keys.head) {
    val named = keys.map(key => ObjectIdentifier.builder().key(key).build()).asJava
    val failed = client.deleteObjects(requests.newBulkDeleteRequestBuilder(named).build()).errors
    if (!failed.isEmpty) {
      val first = failed.get(0)
      throw new IOException(
        s"${failed.size} of ${keys.size} objects could not be deleted, such as ${first.key}: " +
          s"${first.code} ${first.message}"
      )
    }
  }
}

private[fs] object StoreRequests {

  /** The most keys that a store lists, or deletes, by one request. */
  val PageSize = 1000
}
