package io.penstock.workloads.dfsio

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.hadoop.conf.Configuration
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.application.UsageError
import io.penstock.workloads.LocalSpark
import io.penstock.workloads.clients.{Client, Content}

class DfsioSuite extends AnyFunSuite with LocalSpark {

  private def client(number: Int) = Client(number, Vector("1", "2"), attempt = 0, System.nanoTime())

  private def written(name: String): (Path, Transfer) = {
    val place = directory.resolve(name)
    val transfer = Transfer(place.toUri.toString, new Content(1), fileBytes = 100000)
    val _ = transfer.write(client(0), Seq(0, 1), new Configuration())
    (place, transfer)
  }

  private def wrong(transfer: Transfer): Seq[String] =
    transfer.read(client(1), Seq(0, 1), new Configuration()).wrong

  test("what one client wrote another reads, and both say how much it was and when") {
    val (place, transfer) = written("right")
    val read = transfer.read(client(1), Seq(0, 1), new Configuration())
    assert(Files.size(place.resolve("file-000001")) == 100000)
    assert((read.executor, read.bytes, read.steps.map(_.bytes).sum, read.wrong) == (("2", 200000L, 200000L, Nil)))
  }

  test("a flipped bit, a short and a longer file are found by those who read them") {
    val (place, transfer) = written("wrong")
    val file = place.resolve("file-000001")
    val right = Files.readAllBytes(file)
    def withBytes(bytes: Array[Byte]): Seq[String] = {
      val _ = Files.deleteIfExists(place.resolve(".file-000001.crc"))
      Files.write(file, bytes)
      wrong(transfer)
    }
    assert(withBytes(right.updated(99999, (right(99999) ^ 1).toByte)) == Seq("file-000001 differs at byte 99999"))
    assert(withBytes(right.dropRight(1)) == Seq("file-000001 ends after 99999 of 100000 bytes"))
    assert(withBytes(right :+ 0.toByte) == Seq("file-000001 goes on after its 100000 bytes"))
    assert(withBytes(right) == Nil)
  }

  private def samples(name: String, options: String*): Seq[JsonNode] = {
    val report = directory.resolve(s"$name.jsonl")
    val place = directory.resolve(s"$name-place")
    val common = Seq("--location", place.toUri.toString, "--report", report.toUri.toString, "--file-size", "64k")
    assert(Dfsio.measure(spark.sparkContext, Plan.parse(common ++ options)) == 0)
    assert(!Files.exists(place))
    Files.readAllLines(report).asScala.toSeq.map(new ObjectMapper().readTree)
  }

  private def names(samples: Seq[JsonNode], kind: String): Seq[String] =
    samples.filter(_.get("kind").asText == kind).map(_.get("name").asText)

  test("each number of clients writes and reads the same files, checked, and leaves none") {
    val found = samples("both", "--clients", "3,1", "--files", "4")
    assert(
      names(found, "measure") == Seq("write, 3 clients", "read, 3 clients", "write, 1 client", "read, 1 client")
    )
    assert(found.filter(_.get("kind").asText == "measure").forall(_.get("bytes").asLong == 4 * 65536))
    assert(names(found, "check") == Seq("contents, 3 clients", "contents, 1 client"))
    assert(found.filter(_.get("kind").asText == "check").forall(_.get("right").asBoolean))
    // One of the warm-up, and the four of each number of clients.
    assert(found.filter(_.get("kind").asText == "opened").map(_.get("files").asLong) == Seq(9))
  }

  test("what is not measured is still written and checked") {
    val read = samples("read", "--clients", "1,2", "--measure", "read")
    assert(names(read, "measure") == Seq("read, 1 client", "read, 2 clients"))
    assert(names(read, "check").size == 2)
    val write = samples("write", "--clients", "2", "--measure", "write")
    assert(names(write, "measure") == Seq("write, 2 clients"))
    assert(names(write, "check") == Seq("contents, 2 clients"))
  }

  test("what could not be measured is refused before anything starts") {
    def refusal(options: String*) = intercept[UsageError](Plan.parse(options)).getMessage
    assert(refusal("--clients", "0").contains("numbers of at least 1"))
    assert(refusal("--clients", ",").contains("numbers of at least 1"))
    assert(refusal("--clients", "4", "--files", "3").contains("4 clients are more than 3 files"))
    assert(refusal("--clients", "4", "--measure", "append").contains("--measure takes write, read or both"))
  }

  test("the median of an even number of clients is between the middle two") {
    assert(Curve.median(Seq(1, 2, 4, 9)) == 3 && Curve.median(Seq(1, 2, 9)) == 2)
  }
}
