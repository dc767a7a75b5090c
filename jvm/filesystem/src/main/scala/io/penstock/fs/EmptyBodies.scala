package io.penstock.fs

import scala.annotation.nowarn

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.audit.S3AAuditConstants.AUDIT_EXECUTION_INTERCEPTORS
import software.amazon.awssdk.auth.signer.S3SignerExecutionAttribute
import software.amazon.awssdk.core.interceptor.{Context, ExecutionAttributes, ExecutionInterceptor}
import software.amazon.awssdk.services.s3.model.PutObjectRequest

/**
 * Has the SDK sign an empty object as a whole. [[PenstockFileSystem]] brings it along; with S3A's own class it is
 * `fs.s3a.audit.execution.interceptors=io.penstock.fs.EmptyBodies`.
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
