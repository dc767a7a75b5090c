package io.penstock.fs

import java.io.{ByteArrayOutputStream, PrintStream}
import java.nio.charset.StandardCharsets.UTF_8

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.metrics.Counters
import io.penstock.fs.testing.Store

class CacheWarmerTest extends AnyFunSuite {

  private lazy val bucket = Store.newBucket()

  private def warm(paths: Path*): JsonNode = {
    val out = new ByteArrayOutputStream
    new CacheWarmer(Store.conf(), threads = 3, new PrintStream(out)).read(paths)
    new ObjectMapper().readTree(out.toString(UTF_8).linesIterator.toSeq.last)
  }

  test("every byte of everything below the paths is read once") {
    bucket.put("t/day=1/a", new Array[Byte](3000000))
    bucket.put("t/day=2/b", new Array[Byte](7))
    bucket.put("t/_SUCCESS", Array.emptyByteArray)
    bucket.put("u", new Array[Byte](100))
    bucket.put("tt/other", new Array[Byte](50))
    val gets = Counters.RequestsByKind.find(_.kind == "GET").get.sent
    val before = gets.value
    val last = warm(bucket.path("t"), bucket.path("u"))
    assert(last.get("done").asBoolean)
    assert((last.get("objects").asInt, last.get("of_objects").asInt) == ((3, 3)))
    assert((last.get("bytes").asLong, last.get("of_bytes").asLong) == ((3000107L, 3000107L)))
    assert(gets.value - before == 3)
  }

  test("a path that is not there is named") {
    val problem = intercept[RuntimeException](warm(bucket.path("u"), bucket.path("missing")))
    assert(problem.getCause.getMessage.contains("missing"))
  }
}
