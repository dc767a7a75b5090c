package io.penstock.fs.read

import org.apache.hadoop.conf.Configuration

import io.penstock.fs.testing.Fault

/** Bytes that a gateway has damaged. */
class DamagedOnTheWayTest extends ReadsSuite {

  test("a small object whose bytes are not what its entity tag says is asked for again") {
    val (path, data) = put(PageSize - 1000)
    val fs = fileSystem()
    val status = fs.getFileStatus(path)
    gateway.clear()
    gateway.inject(Fault.Flip(5))(_.method == "GET")
    gateway.inject(Fault.Flip(6))(_.method == "GET")
    assert(readAll(opened(fs, status)) sameElements data)
    assert(ranges.size == 3)
  }

  test("a store that tags otherwise is asked twice for some objects, and no more") {
    val check = new TagCheck(misleadings = 2)
    val data = ReadsSuite.bytes(1000, 1)
    val tag = Some("0123456789abcdef0123456789abcdef")
    assert(!check.agrees(tag, data, 0, data.length))
    check.misleading()
    assert(!check.agrees(tag, data, 0, data.length))
    check.misleading()
    assert(check.agrees(tag, data, 0, data.length))
    assert(new TagCheck().agrees(Some("0123-2"), data, 0, data.length))
  }

  test("over TLS, which finds damage itself, bytes are not compared; where any endpoint may be without it, they are") {
    def overTls(settings: (String, String)*): Boolean = {
      val conf = new Configuration(false)
      settings.foreach { case (name, value) => conf.set(name, value) }
      StreamSettings(conf).overTls
    }
    val (endpoint, others) = ("fs.s3a.endpoint", "fs.s3a.penstock.endpoints")
    val plain = "fs.s3a.connection.ssl.enabled" -> "false"
    assert(overTls(endpoint -> "https://lake:443"))
    assert(overTls(endpoint -> "HTTPS://lake", others -> "https://lake,https://other", plain))
    assert(overTls(endpoint -> "lake:9000"))
    assert(!overTls(endpoint -> "lake:9000", plain))
    assert(!overTls(endpoint -> "http://lake:80"))
    assert(!overTls(endpoint -> "https://lake", others -> "https://lake,http://other"))
    assert(!overTls(), "the SDK may be told by the environment")

    val data = ReadsSuite.bytes(1000, 1)
    assert(TagCheck.Unneeded.agrees(Some("0123456789abcdef0123456789abcdef"), data, 0, data.length))
  }
}
