package io.penstock.fs.write

import org.apache.commons.codec.digest.DigestUtils
import org.scalatest.funsuite.AnyFunSuite

class UploadTest extends AnyFunSuite {

  private val upload = Upload("lake", "table/part-0", "id")
  private def part(text: String, last: Boolean = false) =
    UploadedPart(text.length.toLong, DigestUtils.md5Hex(text), last)

  test("the tag of a multipart object is known from its parts' tags, whatever order they came in") {
    val parts = upload + (2 -> part("two", last = true)) + (1 -> part("one."))
    // printf 'one.' | md5sum, printf 'two' | md5sum, and the MD5 of the two in binary.
    val tag = DigestUtils.md5Hex(DigestUtils.md5("one.") ++ DigestUtils.md5("two"))
    assert(parts.predicted.map(id => (id.key, id.length, id.etag)).contains(("table/part-0", 7L, s"$tag-2")))
  }

  test("no object comes of an upload that lacks a part, or has none") {
    assert(upload.predicted.isEmpty && upload.completed("tag").isEmpty)
    assert((upload + (2 -> part("two"))).completed("tag").isEmpty)
    assert((upload + (1 -> part("one")) + (3 -> part("three"))).predicted.isEmpty)
  }

  test("a part whose tag is no MD5 foretells nothing") {
    for (tag <- Seq("kms-encrypted", "abcd", ""))
      assert((upload + (1 -> UploadedPart(3, tag, last = true))).predicted.isEmpty)
  }

  test("the only part of an upload has the object's name from the start; other parts have names of their own") {
    val only = upload + (1 -> part("only", last = true))
    assert(only.predicted.contains(only.name(1)))
    val both = upload + (1 -> part("one")) + (2 -> part("one", last = true))
    assert(Set(both.name(1), both.name(2)).size == 2)
    assert(!both.predicted.exists(object_ => both.name(1) == object_ || both.name(2) == object_))
  }
}
