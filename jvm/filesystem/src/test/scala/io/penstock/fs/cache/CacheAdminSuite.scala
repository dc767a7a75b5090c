package io.penstock.fs.cache

import java.io.{ByteArrayOutputStream, PrintStream}
import java.nio.file.attribute.FileTime
import java.nio.file.{Files, StandardOpenOption}

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.matchers.should.Matchers

class CacheAdminSuite extends AnyFunSuite with Matchers with TemporaryTiers {

  private def tier = memory(16L * 1024 * 1024)

  private def tool(arguments: String*): (Int, Seq[JsonNode], String) = {
    val (out, err) = (new ByteArrayOutputStream, new ByteArrayOutputStream)
    val settings = Seq(
      CacheSettings.MemoryDirectory -> memory(0).directory,
      CacheSettings.MemorySize -> "1G",
      CacheSettings.DiskSize -> "0"
    ).flatMap { case (name, value) => Seq("-D", s"$name=$value") }
    val code = CacheAdmin.run((arguments ++ settings).toList, new PrintStream(out), new PrintStream(err))
    (code, out.toString.linesIterator.map(new ObjectMapper().readTree(_)).toSeq, err.toString)
  }

  private def only(arguments: String*): JsonNode = {
    val lines = tool(arguments: _*)._2
    lines should have size 1
    lines.head
  }

  /** As if the file had been there for a while: nobody is writing it any more. */
  private def age(): Unit = filesOf(tier).foreach(Files.setLastModifiedTime(_, FileTime.fromMillis(0)))

  test("status tells what the table's header says and changes neither the tier nor its budget") {
    only("status").path("state").asText shouldBe "absent"
    Files.exists(tier.directory) shouldBe false
    val one = cache(memory(16L * 1024 * 1024))
    for (index <- 0 until 3) fill(one, version("a", 3), index)
    val line = only("status")
    line.path("state").asText shouldBe "present"
    line.path("tier").asText shouldBe "memory"
    line.path("pages").asLong shouldBe 3
    line.path("used").asLong shouldBe 3 * (PageSize + SlotWord.BlockSize)
    line.path("budget").asLong shouldBe 16L * 1024 * 1024
  }

  test("an unreadable table is reported, not replaced") {
    fill(cache(tier), version("a", 1), 0)
    val table = tier.directory.resolve("v1/table")
    Files.write(table, Array.fill[Byte](100)(7), StandardOpenOption.TRUNCATE_EXISTING)
    val (code, lines, _) = tool("status")
    code shouldBe 1
    lines.map(_.path("state").asText) shouldBe Seq("unreadable")
    Files.size(table) shouldBe 100
  }

  test("verify drops a page with one wrong byte, whichever it is, and keeps the sound ones") {
    val of = version("a", 4)
    val one = cache(tier)
    for (index <- 0 until 4) fill(one, of, index)
    val files = filesOf(tier)
    flip(files(0), 10)
    flip(files(1), Files.size(files(1)) - 20)
    val (code, lines, _) = tool("verify")
    code shouldBe 0
    lines.init.map(_.path("dropped").asText).toSet shouldBe Set(files(0), files(1)).map(_.toString)
    lines.last.path("damaged").asLong shouldBe 2
    lines.last.path("pages").asLong shouldBe 2
    lines.last.path("bytes").asLong shouldBe 2 * PageSize
    tableOf(tier).status.pages shouldBe 2
    filesOf(tier).toSet shouldBe files.drop(2).toSet
  }

  test("verify finds files without a slot, slots without a file, and a count that has drifted") {
    val one = cache(tier)
    for (index <- 0 until 4) fill(one, version("a", 4), index)
    age()
    val table = tableOf(tier)
    val keys = (0 until 4).map(index => version("a", 4).page(index, PageSize))
    table.take(keys(0)).foreach(table.remove(_, evicted = false))
    TierDirectory.existing(tier.directory).get.delete(keys(1))
    table.charge(1000) shouldBe true
    val line = tool("verify")._2.last
    (line.path("orphans").asLong, line.path("missing").asLong, line.path("pages").asLong) shouldBe ((1, 1, 2))
    table.status.used shouldBe 2 * (PageSize + SlotWord.BlockSize)
    table.status.pages shouldBe 2
  }

  test("drop takes what is below a prefix, by whole names") {
    val one = cache(tier)
    for (name <- Seq("sales/1", "sales/2", "sales2/1", "sales")) fill(one, version(name, 1), 0)
    only("drop", "s3a://lake/sales").path("pages").asLong shouldBe 3
    read(one, version("sales/1", 1), 0) shouldBe None
    read(one, version("sales2/1", 1), 0) should not be None
    only("drop", "s3a://elsewhere").path("pages").asLong shouldBe 0
    only("drop").path("pages").asLong shouldBe 1
    tableOf(tier).status.used shouldBe 0
  }

  test("a mistake is answered with what would be right") {
    val (code, lines, message) = tool("dorp")
    (code, lines) shouldBe ((2, Nil))
    message should include("status, verify, or drop")
  }
}
