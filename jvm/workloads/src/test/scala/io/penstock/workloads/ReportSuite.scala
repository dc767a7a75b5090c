package io.penstock.workloads

import java.nio.file.Files

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.hadoop.conf.Configuration
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.application.UsageError

class ReportSuite extends AnyFunSuite {

  private val directory = Files.createTempDirectory("penstock-report")
  private val configuration = new Configuration()

  private def written(use: Report => Unit): Seq[JsonNode] = {
    val file = directory.resolve("report.jsonl")
    Report.to(file.toUri.toString, configuration)(use)
    Files.readAllLines(file).asScala.toSeq.map(new ObjectMapper().readTree)
  }

  test("every sample is one line with the fields the lab records") {
    val lines = written { report =>
      report.measure("sort", 12.5, bytes = 100, rows = 1, "files" -> 3)
      report.check("order", right = true, "1 row in order")
      report.opened(2)
    }
    assert(
      lines.map(_.toString) == Seq(
        """{"kind":"measure","name":"sort","elapsed_ms":12.5,"bytes":100,"rows":1,"files":3}""",
        """{"kind":"check","name":"order","right":true,"note":"1 row in order"}""",
        """{"kind":"opened","files":2}"""
      )
    )
  }

  test("what was wrong is counted, and a failure keeps what was written before it") {
    val lines = written { report =>
      report.check("rows", right = false, "expected 2, found 1")
      report.check("sum", right = true, "3")
      assert(report.wrongChecks == 1)
    }
    assert(lines.map(_.get("right").asBoolean) == Seq(false, true))
    intercept[IllegalStateException](written { report =>
      report.check("rows", right = true, "2")
      throw new IllegalStateException("lost")
    })
    assert(Files.readString(directory.resolve("report.jsonl")).contains("rows"))
  }

  test("a manifest is read back as it was written, and one that was withdrawn is a user's sentence") {
    val manifest = new Manifest(directory.resolve("data").toUri.toString, configuration)
    manifest.write(Map("rows" -> 3L, "kinds" -> Map("date" -> 1L)))
    assert(manifest.read[ReportSuite.Content]() == ReportSuite.Content(3, Map("date" -> 1)))
    manifest.withdraw()
    assert(intercept[UsageError](manifest.read[ReportSuite.Content]()).getMessage.contains("_manifest.json"))
  }

  test("markers, manifests and what is below a hidden directory are no data files; a partition column may begin so") {
    val data = Files.createDirectories(directory.resolve("table/_month=1"))
    Files.writeString(data.resolve("part-0.txt"), "12345")
    for (hidden <- Seq("table/_index/of", "table/_month=1/.staging"))
      Files.writeString(Files.createDirectories(directory.resolve(hidden)).resolve("part-0.txt"), "hidden")
    Seq("_SUCCESS", "_manifest.json", ".part-0.txt.crc").foreach(name => Files.writeString(data.resolve(name), "x"))
    assert(DataFiles.bytes(directory.resolve("table").toUri.toString, configuration) == 5)
    assert(DataFiles.under(directory.resolve("nothing").toUri.toString, configuration).isEmpty)
  }
}

object ReportSuite {
  case class Content(rows: Long, kinds: Map[String, Int])
}
