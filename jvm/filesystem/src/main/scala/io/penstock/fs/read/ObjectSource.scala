package io.penstock.fs.read

import java.io.Closeable

/**
 * What the store said about an object with a response.
 *
 * @param etag
 *   without quotes; none from a store that has none
 * @param length
 *   of the whole object, in bytes
 * @param modified
 *   in seconds since 1970
 * @param answered
 *   the store's clock, in seconds since 1970
 */
final private[read] case class Version(etag: Option[String], length: Long, modified: Long, answered: Long)

/** One object in a store, seen through requests for ranges of it. */
private[read] trait ObjectSource {

  /**
   * Sends one request for the bytes from `from` to `until` (exclusive).
   *
   * @param etag
   *   the version it must be; the store is asked to refuse any other, and a response that carries another is refused
   *   here
   * @throws org.apache.hadoop.fs.s3a.RemoteFileChangedException
   *   it is another version now
   */
  def get(from: Long, until: Long, etag: Option[String]): RangeResponse

  /**
   * Does `work` again after a failure that S3A's policy for reads calls worth it, as often and as slowly as it says.
   */
  def retrying[T](action: String)(work: => T): T

  /** A read broke off; for the statistics. */
  def broke(): Unit
}

/** The answer to one request; it holds a connection until it is closed. */
private[read] trait RangeResponse extends Closeable {
  def version: Version

  /** As `InputStream.read`. */
  def read(into: Array[Byte], offset: Int, length: Int): Int

  /** Gives the connection back, or drops it if what is left of the response is too long to read over. */
  override def close(): Unit
}
