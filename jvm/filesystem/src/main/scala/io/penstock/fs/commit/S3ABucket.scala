package io.penstock.fs.commit

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.s3a.S3AFileSystem
import org.apache.hadoop.fs.s3a.commit.files.UploadEtag
import org.apache.hadoop.fs.s3a.impl.PutObjectOptions
import software.amazon.awssdk.core.sync.RequestBody
import software.amazon.awssdk.services.s3.model.{Bucket => _, _}

import io.penstock.fs.StoreRequests

/**
 * A bucket through S3A's own client, with its requests' defaults (encryption, storage class) and its retries. S3A's
 * public operations look for directories and markers first; these send the one request that is needed.
 */
final private[commit] class S3ABucket(fs: S3AFileSystem) extends Bucket {

  import S3ABucket._

  private val store = new StoreRequests(fs)

  override def name: String = fs.getBucket

  import store.{client, requests, retrying}

  override def list(prefix: String): Iterator[Listed] =
    pages(Option.empty[String]) { token =>
      val request = requests.newListObjectsV2RequestBuilder(prefix, null, StoreRequests.PageSize)
      token.foreach(request.continuationToken)
      val page = retrying("list", prefix)(client.listObjectsV2(request.build()))
      val listed =
        page.contents.asScala.map(o => Listed(o.key, o.size.longValue, o.lastModified.toEpochMilli)).toVector
      (listed, Option.when(page.isTruncated)(page.nextContinuationToken))
    }

  override def exists(key: String): Boolean = retrying("look for", key) {
    found(client.headObject(requests.newHeadObjectRequestBuilder(key).build())).isDefined
  }

  override def read(key: String): Option[Array[Byte]] = retrying("read", key) {
    found(client.getObjectAsBytes(requests.newGetObjectRequestBuilder(key).build()).asByteArray)
  }

  override def write(key: String, content: Array[Byte]): Unit = retrying("write", key) {
    client.putObject(put(key, content).build(), RequestBody.fromBytes(content))
    ()
  }

  override def create(key: String, content: Array[Byte]): Boolean = retrying("create", key) {
    try {
      client.putObject(put(key, content).ifNoneMatch("*").build(), RequestBody.fromBytes(content))
      true
    } catch { case e: S3Exception if Conflicts(e.statusCode) => false }
  }

  private def put(key: String, content: Array[Byte]): PutObjectRequest.Builder =
    requests.newPutObjectRequestBuilder(key, PutObjectOptions.defaultOptions(), content.length.toLong, false)

  override def delete(keys: Seq[String]): Unit = store.delete(keys)

  override def complete(upload: Upload): Boolean = retrying("complete", upload.key) {
    val parts = upload.parts.zipWithIndex.map { case (part, index) =>
      val etag = new UploadEtag(part.etag, part.checksumAlgorithm.orNull, part.checksum.orNull)
      UploadEtag.toCompletedPart(etag, index + 1)
    }
    val request = requests.newCompleteMultipartUploadRequestBuilder(
      upload.key,
      upload.id,
      parts.asJava,
      PutObjectOptions.defaultOptions()
    )
    found(client.completeMultipartUpload(request.build())).isDefined
  }

  override def abort(key: String, uploadId: String): Unit = retrying("abort", key) {
    found(client.abortMultipartUpload(requests.newAbortMultipartUploadRequestBuilder(key, uploadId).build()))
    ()
  }

  override def uploads(prefix: String): Iterator[PendingUpload] =
    pages(Option.empty[(String, String)]) { markers =>
      val request = requests.newListMultipartUploadsRequestBuilder(prefix)
      markers.foreach { case (key, id) => request.keyMarker(key).uploadIdMarker(id) }
      val page = retrying("list uploads", prefix)(client.listMultipartUploads(request.build()))
      // Not every store applies the prefix.
      val listed = page.uploads.asScala.iterator
        .filter(_.key.startsWith(prefix))
        .map(u => PendingUpload(u.key, u.uploadId, u.initiated.toEpochMilli))
        .toVector
      (listed, Option.when(page.isTruncated)((page.nextKeyMarker, page.nextUploadIdMarker)))
    }

  override def uploadedBytes(upload: PendingUpload): Long = retrying("list parts", upload.key) {
    val request = ListPartsRequest.builder().bucket(name).key(upload.key).uploadId(upload.id).build()
    found(client.listPartsPaginator(request).parts.asScala.iterator.map(_.size.longValue).sum).getOrElse(0L)
  }
}

private[commit] object S3ABucket {

  /** There is one; or another is being created at this moment: looking again tells. */
  private val Conflicts = Set(409, 412)

  private def found[A](call: => A): Option[A] =
    try Some(call)
    catch { case e: S3Exception if e.statusCode == 404 && !e.isInstanceOf[NoSuchBucketException] => None }

  /** Asks for a page only when the former one is used up. */
  private def pages[A, T](first: Option[T])(page: Option[T] => (Vector[A], Option[T])): Iterator[A] =
    Iterator
      .unfold(Option(first)) {
        case None => None
        case Some(token) =>
          val (items, next) = page(token)
          Some((items, next.map(Option(_))))
      }
      .flatten
}
