package io.penstock.fs.write

import java.security.MessageDigest

import org.apache.commons.codec.DecoderException
import org.apache.commons.codec.binary.Hex

import io.penstock.fs.cache.ObjectIdentity

/**
 * A part that the store has taken.
 *
 * @param length
 *   in bytes
 * @param etag
 *   without quotes
 * @param last
 *   whether the writer said that no other follows it
 */
final private[write] case class UploadedPart(length: Long, etag: String, last: Boolean)

/**
 * A multipart upload, and the parts of it that the store has taken, by their number from 1. It has no version before it
 * is complete, but its pages need a name before.
 */
final private[write] case class Upload(
    bucket: String,
    key: String,
    id: String,
    parts: Map[Int, UploadedPart] = Map.empty
) {

  def +(numbered: (Int, UploadedPart)): Upload = copy(parts = parts + numbered)

  def inOrder: Vector[(Int, UploadedPart)] = parts.toVector.sortBy(_._1)

  /** What the pages of a part are kept under: a name that no reader asks for, unless it is the object's own already. */
  def name(number: Int): ObjectIdentity = {
    val part = parts(number)
    val only = if (number == 1 && part.last) Upload(bucket, key, id, Map(1 -> part)).predicted else None
    only.getOrElse(ObjectIdentity(bucket, key, part.length, s"$id/$number"))
  }

  /** The object that these parts are, once the store has given it this tag; none if one of them is missing. */
  def completed(etag: String): Option[ObjectIdentity] =
    if (parts.isEmpty || inOrder.map(_._1) != Vector.range(1, parts.size + 1)) None
    else Some(ObjectIdentity(bucket, key, parts.valuesIterator.map(_.length).sum, etag))

  /**
   * The object that these parts will be where the store tags objects as Amazon's does: with the MD5 of the parts' MD5s
   * one after the other, in hexadecimal digits, a dash and the number of parts. None where a part's tag is no MD5, as
   * with some kinds of encryption. With a store that does otherwise nobody ever asks for this object.
   */
  def predicted: Option[ObjectIdentity] =
    try {
      val digest = MessageDigest.getInstance("MD5")
      inOrder.foreach { case (_, part) =>
        val hash = Hex.decodeHex(part.etag)
        if (hash.length != digest.getDigestLength) throw new DecoderException
        digest.update(hash)
      }
      completed(s"${Hex.encodeHexString(digest.digest())}-${parts.size}")
    } catch { case _: DecoderException => None }
}
