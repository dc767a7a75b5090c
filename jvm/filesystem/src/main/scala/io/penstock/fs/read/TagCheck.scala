package io.penstock.fs.read

import java.security.MessageDigest
import java.util.concurrent.atomic.AtomicInteger

import org.apache.commons.codec.binary.Hex

/**
 * What an entity tag says of an object's bytes, where it has the form of their check sum: MD5, or for an upload of one
 * part the MD5 of that. S3 has nothing of the kind for a range.
 *
 * A store may make tags as it likes (of encrypted objects, for example). So a tag that differs is a reason to ask
 * again, and if the same bytes come again they are the object's; after some such objects nobody looks at tags any more.
 */
final private[read] class TagCheck(misleadings: Int = 3) {

  import TagCheck._

  private val misled = new AtomicInteger

  /** Whether nothing speaks against these being the bytes of the whole object. */
  def agrees(etag: Option[String], data: Array[Byte], offset: Int, length: Int): Boolean =
    misled.get >= misleadings || (etag match {
      case Some(Plain(expected)) => hex(digest(data, offset, length)) == expected
      case Some(OnePart(expected)) =>
        val part = digest(data, offset, length)
        hex(digest(part, 0, part.length)) == expected
      case _ => true
    })

  /** The same bytes came twice: it is the tag that says something else. */
  def misleading(): Unit = {
    misled.incrementAndGet()
    ()
  }
}

private[read] object TagCheck {

  /** Of all file systems of this process: it is about how their stores make tags. */
  val Shared = new TagCheck

  /** Agrees to everything, at no cost: for bytes that the transport has vouched for. */
  val Unneeded = new TagCheck(misleadings = 0)

  private val Plain = "([0-9a-f]{32})".r
  private val OnePart = "([0-9a-f]{32})-1".r

  private def digest(data: Array[Byte], offset: Int, length: Int): Array[Byte] = {
    val md5 = MessageDigest.getInstance("MD5")
    md5.update(data, offset, length)
    md5.digest()
  }

  private def hex(bytes: Array[Byte]): String = Hex.encodeHexString(bytes)
}
