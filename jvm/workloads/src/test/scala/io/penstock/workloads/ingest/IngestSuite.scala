package io.penstock.workloads.ingest

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.hadoop.conf.Configuration
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.workloads.LocalSpark
import io.penstock.workloads.clients.ContentStream

class IngestSuite extends AnyFunSuite with LocalSpark {

  private val configuration = new Configuration()

  private def load(name: String): IngestLoad =
    IngestLoad(directory.resolve(name).toUri.toString.stripSuffix("/"), 1, writers = 2, 1000, None, seed = 5)

  /** As a writer that wrote so many objects of 1000 bytes, and says so. */
  private def put(load: IngestLoad, series: Series, objects: Long): Written = {
    val stream = new ContentStream(load.content)
    (0L until objects).foreach(load.put(series, _, stream, configuration))
    Written(series, objects, unsure = false, 0, 1, new Latencies, Vector.empty, Map.empty, None, None)
  }

  /** Two writers, one of them with more than a folder of objects. */
  private def written(load: IngestLoad): Seq[Written] = Seq(put(load, Series(0, 0), 105), put(load, Series(1, 0), 7))

  private def findings(load: IngestLoad, written: Seq[Written]): Findings = {
    val inspection = new Inspection(load.location, load.content, load.objectBytes, configuration)
    val (folders, strange) = inspection.folders(written)
    val found = folders.map(inspection.inspect).foldLeft(Findings.none)(_ + _)
    found.copy(extra = found.extra + strange)
  }

  private def file(load: IngestLoad, name: String): Path = Path.of(java.net.URI.create(s"${load.location}/$name"))

  private def replace(load: IngestLoad, name: String, bytes: Array[Byte]): Unit = {
    val path = file(load, name)
    val _ = Files.deleteIfExists(path.resolveSibling(s".${path.getFileName}.crc"))
    val _ = Files.write(path, bytes)
  }

  test("a flipped bit, a short, a missing and an extra object are each found and named, and nothing else is") {
    val load = this.load("faults")
    val all = written(load)
    val right = findings(load, all)
    assert(right.objects == 112 && right.bytes == 112000)
    assert(Seq(right.missing, right.extra, right.differing).forall(_ == Faults.none))

    val one = Series(1, 0)
    val bytes = Files.readAllBytes(file(load, one.name(0)))
    replace(load, one.name(0), bytes.updated(17, (bytes(17) ^ 4).toByte))
    replace(load, one.name(1), bytes.take(999))
    Files.delete(file(load, one.name(2)))
    replace(load, one.name(all(1).objects), bytes)
    replace(load, "writer-00001-00/note", bytes)
    Files.createDirectories(file(load, "writer-00007-00/00000000"))
    Files.createDirectories(file(load, "writer-00000-00/00000009"))
    replace(load, Series(0, 0).name(950), bytes)

    val found = findings(load, all)
    assert(found.missing.named == Seq(one.name(2)))
    assert(
      found.extra.named.toSet ==
        Set(one.name(all(1).objects), "writer-00001-00/note", "writer-00007-00", Series(0, 0).name(950))
    )
    // Under the second name are the first one's bytes, so it differs before it is found to be short.
    assert(found.differing.named.map(_.takeWhile(_ != ' ')) == Seq(one.name(0), one.name(1)))
    assert(found.differing.named.head.endsWith("differs at byte 17"))
  }

  test("an object that is short is named so") {
    val load = this.load("short")
    val all = written(load)
    val name = Series(0, 0).name(3)
    replace(load, name, Files.readAllBytes(file(load, name)).take(7))
    assert(findings(load, all).differing.named == Seq(s"$name ends after 7 of 1000 bytes"))
  }

  test("two objects exchanged are two that differ") {
    val load = this.load("exchanged")
    val all = written(load)
    val (one, other) = (Series(0, 0).name(1), Series(1, 0).name(1))
    val bytes = Files.readAllBytes(file(load, one))
    replace(load, one, Files.readAllBytes(file(load, other)))
    replace(load, other, bytes)
    assert(findings(load, all).differing.count == 2)
  }

  test("the object of a PUT that failed may be there or not, but is right if it is") {
    val load = this.load("unsure")
    val all = written(load).map(one => one.copy(objects = one.objects - 1, unsure = true))
    assert(findings(load, all).extra.count == 0)
    Files.delete(file(load, Series(0, 0).name(all.head.objects)))
    assert(findings(load, all).missing.count == 0)
    replace(load, Series(1, 0).name(all(1).objects), Array(1, 2, 3))
    assert(findings(load, all).differing.count == 1)
  }

  test("the objects of an attempt whose executor was lost are inspected too") {
    val load = this.load("lost")
    val all = written(load)
    val again = all.updated(0, put(load, Series(0, 1), 3))
    val found = findings(load, again)
    assert(found.objects == all.head.objects + again.map(_.objects).sum)
    assert(Seq(found.missing, found.extra, found.differing).forall(_ == Faults.none))
    val name = Series(0, 0).name(4)
    replace(load, name, new Array(1000))
    assert(findings(load, again).differing.named.map(_.takeWhile(_ != ' ')) == Seq(name))
  }

  test("however much is wrong, only the first names are kept, and all are counted") {
    val many = (1 to 100).map(index => Faults.of(Seq(s"$index"))).reduce(_ + _)
    assert(many.count == 100 && many.named.size == 20)
  }

  private def samples(report: Path): Seq[JsonNode] =
    Files.readAllLines(report).asScala.toSeq.map(new ObjectMapper().readTree)

  test("an ingest records rate, latency and checks, and leaves nothing behind unless it is to be kept") {
    val report = directory.resolve("ingest.jsonl")
    val load = this.load("whole")
    assert(Ingest.measure(spark.sparkContext, load, report.toUri.toString, keep = false) == 0)
    assert(!Files.exists(directory.resolve("whole")))
    val byKind = samples(report).groupBy(_.get("kind").asText)
    val ingest = byKind("measure").find(_.get("name").asText == "ingest").get
    assert(ingest.get("basis").asText == "rate" && ingest.get("operations").asLong > 0)
    val points = byKind("point")
    assert(points.map(_.get("bytes").asLong).sum == ingest.get("bytes").asLong)
    assert(points.map(_.get("operations").asLong).sum == ingest.get("operations").asLong)
    assert(
      byKind("check").map(_.get("name").asText) ==
        Seq("writers", "missing objects", "extra objects", "differing objects")
    )
    assert(byKind("check").forall(_.get("right").asBoolean))
    val counted = byKind("latency").head.get("histogram").elements.asScala.map(_.get(1).asLong).sum
    assert(counted == ingest.get("operations").asLong)

    assert(Ingest.measure(spark.sparkContext, load, report.toUri.toString, keep = true) == 0)
    assert(Files.exists(directory.resolve("whole/writer-00000-00")))
  }

  test("writers that can write nothing make the ingest fail, with the reason recorded") {
    val report = directory.resolve("nothing.jsonl")
    val file = Files.writeString(directory.resolve("a-file"), "x")
    val load = this.load("any").copy(location = s"${file.toUri}/below")
    assert(Ingest.measure(spark.sparkContext, load, report.toUri.toString, keep = false) == 1)
    val found = samples(report)
    assert(found.map(_.get("kind").asText) == Seq("errors"))
  }

  test("however long an ingest goes on, its rate is some thousands of points") {
    assert(load("any").copy(seconds = 3600).stepSeconds == 1)
    assert(load("any").copy(seconds = 24 * 3600).stepSeconds == 24)
  }
}
