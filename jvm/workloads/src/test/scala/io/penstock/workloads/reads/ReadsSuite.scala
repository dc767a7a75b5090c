package io.penstock.workloads.reads

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.hadoop.conf.Configuration
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.application.UsageError

class ReadsSuite extends AnyFunSuite with BeforeAndAfterAll {

  private val directory = Files.createTempDirectory("reads")
  private val data = ReadObjects(size = 16 << 20, smallObjects = 3, smallSize = 5000)
  private lazy val right = generated("right")

  override def afterAll(): Unit =
    Files.walk(directory).sorted(java.util.Comparator.reverseOrder[Path]).forEach(Files.delete(_))

  private def generated(name: String): Path = {
    val place = directory.resolve(name)
    GenerateObjects.generate(data, place.toUri.toString, new Configuration)
    place
  }

  private def read(place: Path, options: String*): (Int, Seq[JsonNode]) = {
    val report = Files.createTempFile(directory, "report", ".jsonl")
    val tier = Files.createTempDirectory(directory, "tier")
    val common = Seq("--location", place.toUri.toString, "--report", report.toUri.toString, "--tier", tier.toString)
    val code = Reads.run(common ++ Seq("--passes", "1") ++ options)
    assert(Files.list(tier).count() == 0, "a cold pass leaves its cache behind")
    (code, Files.readAllLines(report).asScala.toSeq.map(new ObjectMapper().readTree))
  }

  private def checks(samples: Seq[JsonNode]): Map[String, Boolean] =
    samples.filter(_.get("kind").asText == "check").map(s => s.get("name").asText -> s.get("right").asBoolean).toMap

  test("every pattern is measured with every number of threads, and they read the same") {
    val (code, samples) = read(right, "--threads", "1,3", "--cache", "cold")
    assert(code == 0 && checks(samples) == Map("contents" -> true, "bytes looked at" -> true))
    val measures = samples.filter(_.get("kind").asText == "measure")
    val bytes = measures.map(m => m.get("name").asText -> m.get("bytes").asLong).toMap
    val expected = Map(
      "sequential" -> (16L << 20),
      "random 64 KiB" -> (4L << 20),
      "vectored, 6 of 16 columns" -> (6L << 20),
      "small objects" -> 15000L
    )
    assert(bytes == expected.flatMap { case (name, size) =>
      Seq(s"$name, 1 thread" -> size, s"$name, 3 threads" -> size)
    })
    assert(measures.forall(_.get("core_seconds").asDouble > 0))
  }

  test("passes that only warm up are not among the measures") {
    val (_, samples) = read(right, "--threads", "1", "--warmup-passes", "3", "--passes", "2", "--patterns", "small")
    val measures = samples.filter(_.get("kind").asText == "measure")
    assert(measures.map(_.get("pass").asInt) == Seq(1, 2))
  }

  test("only the patterns that were named are measured") {
    val (code, samples) = read(right, "--threads", "1", "--cache", "small", "--patterns", "small,vectored")
    val names = samples.filter(_.get("kind").asText == "measure").map(_.get("name").asText)
    assert(code == 0 && names == Seq("small objects, 1 thread", "vectored, 6 of 16 columns, 1 thread"))
    val failure = intercept[UsageError](read(right, "--patterns", "small,backwards"))
    assert(
      failure.getMessage.contains("sequential, random, vectored, small") && failure.getMessage.contains("backwards")
    )
  }

  test("local files can be read without their check sums, and nothing else can") {
    assert(read(right, "--raw", "true", "--threads", "1")._1 == 0)
    val bucket = Seq("--location", "s3a://bucket/x", "--report", "file:/dev/null", "--tier", "/tmp", "--raw", "perhaps")
    assert(intercept[UsageError](Reads.run(bucket)).getMessage.contains("perhaps"))
  }

  test("a byte that is wrong is found, whoever reads it") {
    val place = generated("wrong")
    val file = place.resolve("large")
    val bytes = Files.readAllBytes(file)
    Files.write(file, bytes.updated(5 << 20, (bytes(5 << 20) ^ 1).toByte))
    Files.delete(place.resolve(".large.crc"))
    val (code, samples) = read(place, "--threads", "1")
    assert(code == 9 && checks(samples) == Map("contents" -> false, "bytes looked at" -> false))
  }

  test("what is generated is the same at every place") {
    assert(Files.mismatch(right.resolve("large"), generated("again").resolve("large")) == -1)
  }

  test("without a manifest there is nothing to read") {
    val place = generated("torn")
    Files.delete(place.resolve("_manifest.json"))
    assert(intercept[UsageError](read(place)).getMessage.contains("never generated whole"))
  }
}
