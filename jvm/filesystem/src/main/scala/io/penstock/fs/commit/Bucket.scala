package io.penstock.fs.commit

/** An object as a listing shows it; `modified` in milliseconds since 1970, by the store's clock. */
final private[commit] case class Listed(key: String, bytes: Long, modified: Long)

/** An upload that is neither completed nor aborted; `initiated` in milliseconds since 1970, by the store's clock. */
final private[commit] case class PendingUpload(key: String, id: String, initiated: Long)

/**
 * What a commit asks of one bucket. Failures are `IOException`s, thrown after the store has been asked often enough;
 * what is not there is never a failure.
 */
private[commit] trait Bucket {

  def name: String

  /** Objects whose key begins with `prefix`, ascending by the key's bytes: one request for each 1,000. */
  def list(prefix: String): Iterator[Listed]

  def exists(key: String): Boolean

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
