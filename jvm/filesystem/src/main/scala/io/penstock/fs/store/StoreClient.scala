package io.penstock.fs.store

import java.io.IOException

import scala.annotation.nowarn
import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.S3AFileSystem
import org.apache.hadoop.fs.s3a.api.RequestFactory
import org.apache.hadoop.fs.s3a.audit.S3AAuditConstants.AUDIT_EXECUTION_INTERCEPTORS
import org.apache.hadoop.util.functional.CallableRaisingIOE
import software.amazon.awssdk.auth.signer.S3SignerExecutionAttribute
import software.amazon.awssdk.core.interceptor.{Context, ExecutionAttributes, ExecutionInterceptor}
import software.amazon.awssdk.services.s3.S3Client
import software.amazon.awssdk.services.s3.model.{ObjectIdentifier, PutObjectRequest}

/** Single requests through S3A's own client, with the defaults (encryption, storage class) of its requests. */
final private[fs] class StoreClient(fs: S3AFileSystem) {

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
    case many if context.isMultiObjectDeleteEnabled => many.grouped(StoreClient.PageSize).foreach(deletePage)
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

private[fs] object StoreClient {

  /** The most keys that a store lists, or deletes, by one request. */
  val PageSize = 1000
}

/**
 * Has the SDK sign an empty object as a whole. [[PenstockFileSystem]] brings it along; with S3A's own class it is
 * `fs.s3a.audit.execution.interceptors=io.penstock.fs.store.EmptyBodies`.
 *
 * Over http it signs uploads chunk by chunk, and Ceph 16 refuses that of a body without any chunk (400
 * XAmzContentSHA256Mismatch): no directory marker could be written there, and no finished commit emptied.
 */
@nowarn("cat=deprecation") // The SDK of S3A signs by attributes of this kind, and has no other switch for one request.
class EmptyBodies extends ExecutionInterceptor {

  override def beforeExecution(context: Context.BeforeExecution, attributes: ExecutionAttributes): Unit =
    context.request match {
      case put: PutObjectRequest if put.contentLength != null && put.contentLength == 0L =>
        attributes.putAttribute(S3SignerExecutionAttribute.ENABLE_CHUNKED_ENCODING, java.lang.Boolean.FALSE)
      case _ =>
    }
}

private[fs] object EmptyBodies {

  /** The settings, with an interceptor (this one) among those of the bucket's requests; a copy where it was not. */
  def added(conf: Configuration, bucket: String, interceptor: Class[_] = classOf[EmptyBodies]): Configuration = {
    // Where the bucket has a list of its own, S3A puts it in the place of the general one.
    val ofBucket = s"fs.s3a.bucket.$bucket." + AUDIT_EXECUTION_INTERCEPTORS.stripPrefix("fs.s3a.")
    val name = if (conf.get(ofBucket) == null) AUDIT_EXECUTION_INTERCEPTORS else ofBucket
    val listed = conf.getTrimmedStrings(name).toSeq
    if (listed.contains(interceptor.getName)) conf
    else {
      val copy = new Configuration(conf)
      copy.set(name, (listed :+ interceptor.getName).mkString(","))
      copy
    }
  }
}

private[fs] object EntityTag {

  /** Without its quotes; a weak one does not say that the bytes are the same, so it is none. */
  def strong(etag: String): Option[String] =
    Option(etag).filterNot(_.startsWith("W/")).map(_.stripPrefix("\"").stripSuffix("\"")).filter(_.nonEmpty)
}
