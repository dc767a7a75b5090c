package io.penstock.fs.commit

import java.util.concurrent.{Callable, ExecutionException, ExecutorService, Executors}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.commons.lang3.concurrent.BasicThreadFactory
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.hadoop.fs.s3a.S3AFileSystem
import org.apache.hadoop.fs.s3a.commit.CommitConstants
import org.apache.hadoop.fs.s3a.commit.files.UploadEtag
import org.apache.hadoop.fs.s3a.impl.PutObjectOptions
import software.amazon.awssdk.core.sync.RequestBody
import software.amazon.awssdk.services.s3.model._

import io.penstock.fs.store.{EntityTag, StoreClient}

/** An object as a listing shows it; `modified` in milliseconds since 1970, by the store's clock. */
final private[commit] case class Listed(key: String, bytes: Long, modified: Long)

/** An upload that is neither completed nor aborted; `initiated` in milliseconds since 1970, by the store's clock. */
final private[commit] case class PendingUpload(key: String, id: String, initiated: Long)

/**
 * What a commit asks of one bucket. Failures are `IOException`s, thrown after the store has been asked often enough;
 * what is not there is never a failure.
 */
private[commit] trait ObjectStore {

  def name: String

  /** Objects whose key begins with `prefix`, ascending by the key's bytes: one request for each 1,000. */
  def list(prefix: String): Iterator[Listed]

  /** The entity tag of the object without its quotes, empty from a store that gives none; None where no object is. */
  def entityTag(key: String): Option[String]

  def read(key: String): Option[Array[Byte]]

  def write(key: String, content: Array[Byte]): Unit

  /**
   * Writes an object that must not be there yet; of several that try, one wins. False where there is one, which may be
   * this one: the reply to the first attempt got lost.
   */
  def create(key: String, content: Array[Byte]): Boolean

  /** One request for many keys. */
  def delete(keys: Seq[String]): Unit

  /** Makes the upload an object. False where the store knows no such upload: completed before, or aborted. */
  def complete(upload: Upload): Boolean

  def abort(key: String, uploadId: String): Unit

  /** Pending uploads to keys that begin with `prefix`. */
  def uploads(prefix: String): Iterator[PendingUpload]

  /** Bytes of the parts uploaded so far. */
  def uploadedBytes(upload: PendingUpload): Long
}

/** The buckets of one table: its own, and those of partitions that have a location of their own. */
final private[commit] class ObjectStores(open: String => ObjectStore) {
  private val opened = mutable.Map.empty[String, ObjectStore]
  def apply(name: String): ObjectStore = synchronized(opened.getOrElseUpdate(name, open(name)))
}

private[commit] object ObjectStores {

  /** The file system of another bucket, by the scheme by which the table is known. */
  def fileSystem(table: Path, bucket: String, conf: Configuration): S3AFileSystem = {
    val scheme = table.getFileSystem(conf).getUri.getScheme
    new Path(s"$scheme://$bucket/").getFileSystem(conf).asInstanceOf[S3AFileSystem]
  }
}

/** Runs short requests side by side. */
final private[commit] class Parallel(threads: Int) {

  /** In order. The first failure is thrown once all have ended, so that nothing goes on behind the caller's back. */
  def map[A, B](items: Seq[A])(work: A => B): Vector[B] =
    if (items.sizeIs <= 1 || threads == 1) inTurn(items)(work)
    else {
      val named = BasicThreadFactory.builder().namingPattern("penstock-commit").daemon(true).build()
      val pool: ExecutorService = Executors.newFixedThreadPool(math.min(threads, items.size), named)
      try {
        val results = pool.invokeAll(items.map(item => (() => work(item)): Callable[B]).asJava)
        results.asScala.iterator
          .map(result =>
            try result.get()
            catch { case e: ExecutionException => throw e.getCause }
          )
          .toVector
      } finally pool.shutdown()
    }

  /** In this thread; as in `map`, a failure leaves out none of the others. */
  private def inTurn[A, B](items: Seq[A])(work: A => B): Vector[B] = {
    val results = items.iterator.map(item =>
      try Right(work(item))
      catch { case failure: Throwable => Left(failure) }
    )
    results.toVector.map(_.fold(throw _, identity))
  }

  def filter[A](items: Seq[A])(predicate: A => Boolean): Vector[A] =
    map(items)(item => (item, predicate(item))).collect { case (item, true) => item }
}

private[commit] object Parallel {

  /** As many threads as S3A's own committers would have. */
  def of(conf: Configuration): Parallel = new Parallel(
    conf.getInt(CommitConstants.FS_S3A_COMMITTER_THREADS, CommitConstants.DEFAULT_COMMITTER_THREADS)
  )
}

/**
 * A bucket through S3A's own client, with its requests' defaults (encryption, storage class) and its retries. S3A's
 * public operations look for directories and markers first; these send the one request that is needed.
 */
final private[commit] class S3AObjectStore(fs: S3AFileSystem) extends ObjectStore {

  import S3AObjectStore._

  private val store = new StoreClient(fs)

  override def name: String = fs.getBucket

  import store.{client, requests, retrying}

  override def list(prefix: String): Iterator[Listed] =
    pages(Option.empty[String]) { token =>
      val request = requests.newListObjectsV2RequestBuilder(prefix, null, StoreClient.PageSize)
      token.foreach(request.continuationToken)
      val page = retrying("list", prefix)(client.listObjectsV2(request.build()))
      val listed =
        page.contents.asScala.map(o => Listed(o.key, o.size.longValue, o.lastModified.toEpochMilli)).toVector
      (listed, Option.when(page.isTruncated)(page.nextContinuationToken))
    }

  override def entityTag(key: String): Option[String] = retrying("look for", key) {
    found(client.headObject(requests.newHeadObjectRequestBuilder(key).build()))
      .map(head => EntityTag.strong(head.eTag).getOrElse(""))
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

private[commit] object S3AObjectStore {

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
