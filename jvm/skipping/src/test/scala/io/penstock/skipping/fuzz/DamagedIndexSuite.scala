package io.penstock.skipping.fuzz

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, StandardCopyOption}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.Row
import org.apache.spark.sql.execution.FileSourceScanExec
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanHelper
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.matchers.should.Matchers

import io.penstock.skipping.LocalSpark
import io.penstock.skipping.build.{IndexMaintenance, IndexedTable}
import io.penstock.skipping.index.IndexCatalog
import io.penstock.skipping.model.{FileFilter, RangeSet}

/** An index that cannot be trusted is no index: each query is answered from all files, and none fails. */
class DamagedIndexSuite extends AnyFunSuite with Matchers with LocalSpark with AdaptiveSparkPlanHelper {

  override protected def settings: Map[String, String] = FuzzedSpark.settings

  private val Flips = 600
  private val FilesOfTable = 4
  private val Expected = Seq(Row(250L), Row(251L))
  private var tables = 0

  /** A table with an index by which three of its four files are skipped. */
  private def table(): Path = {
    tables += 1
    val root = directory.resolve(s"table-$tables")
    spark.range(0, 1000, 1, FilesOfTable).write.parquet(root.toUri.toString)
    IndexMaintenance.build(spark, IndexedTable.at(spark, root.toUri.toString), Some(Seq("id")))
    ask(root) shouldBe (Expected -> 1)
    root
  }

  /** The answer, and how many files were read for it. */
  private def ask(root: Path): (Seq[Row], Long) = {
    val frame = spark.read.parquet(root.toUri.toString).where("id IN (250, 251)")
    val rows = frame.collect().toSeq.sortBy(_.getLong(0))
    val scans = collect(frame.queryExecution.executedPlan) { case scan: FileSourceScanExec => scan }
    (rows, scans.map(_.metrics("numFiles").value).sum)
  }

  private def manifest(root: Path): Path = root.resolve("_skipindex/_manifest.json")

  private def part(root: Path): Path = {
    val files = Files.list(root.resolve("_skipindex"))
    try files.iterator().asScala.find(_.getFileName.toString.startsWith("_part-")).get
    finally files.close()
  }

  private def rewrite(file: Path)(change: Array[Byte] => Array[Byte]): Unit =
    Files.write(file, change(Files.readAllBytes(file)))

  private def rewriteText(file: Path)(change: String => String): Unit = rewrite(file) { bytes =>
    val (before, after) = (new String(bytes, UTF_8), change(new String(bytes, UTF_8)))
    after should not be before
    after.getBytes(UTF_8)
  }

  /** As another manifest: the parts of one that a driver holds in memory, it does not read again. */
  private def renew(root: Path, id: String): Unit =
    rewriteText(manifest(root))(_.replaceFirst("\"id\" *: *\"[^\"]*\"", s"\"id\": \"$id\""))

  /** One test for each way in which an index can be harmed. */
  private def harmed(how: String)(harm: Path => Unit): Unit = test(s"$how is no index") {
    val root = table()
    harm(root)
    ask(root) shouldBe (Expected -> FilesOfTable)
    // The same once more: what was found out is remembered, not the index.
    ask(root) shouldBe (Expected -> FilesOfTable)
    IndexMaintenance.build(spark, IndexedTable.at(spark, root.toUri.toString), Some(Seq("id")))
    ask(root) shouldBe (Expected -> 1)
  }

  harmed("an index of a later version") { root =>
    rewriteText(manifest(root))(_.replaceAll("\"format\" *: *2", "\"format\": 3"))
  }

  harmed("an index of an unknown version")(root =>
    rewriteText(manifest(root))(_.replaceAll("\"format\" *: *2,", "\"format\": \"one\","))
  )

  harmed("a manifest cut short")(root => rewrite(manifest(root))(bytes => bytes.take(bytes.length / 2)))

  harmed("an empty manifest")(root => rewrite(manifest(root))(_ => Array.empty))

  harmed("a manifest that is something else")(root => rewriteText(manifest(root))(_ => "[\"a list\"]"))

  harmed("a manifest of a type nobody knows")(root => rewriteText(manifest(root))(_.replace("long", "quaternion")))

  private def harmedPart(how: String)(harm: Path => Unit): Unit = harmed(s"an index whose part $how") { root =>
    harm(root)
    renew(root, "another")
  }

  harmedPart("is gone")(root => Files.delete(part(root)))

  harmedPart("is cut short")(root => rewrite(part(root))(bytes => bytes.take(bytes.length - 100)))

  harmedPart("is empty")(root => rewrite(part(root))(_ => Array.empty))

  harmedPart("is no Parquet file")(root => rewrite(part(root))(_.map(_ => 'x'.toByte)))

  harmedPart("is another Parquet file") { root =>
    val other = Files.list(root)
    try
      Files.copy(
        other.iterator().asScala.find(_.toString.endsWith(".parquet")).get,
        part(root),
        StandardCopyOption.REPLACE_EXISTING
      )
    finally other.close()
  }

  harmed("an index copied from another table") { root =>
    val other = table()
    for (file <- Seq(manifest(other), part(other)))
      Files.copy(file, root.resolve("_skipindex").resolve(file.getFileName), StandardCopyOption.REPLACE_EXISTING)
  }

  test("a table that was copied with its index, times and all, is read whole") {
    val root = table()
    val copy = directory.resolve("copied")
    val files = Files.walk(root)
    try
      files.iterator().asScala.foreach { file =>
        Files.copy(file, copy.resolve(root.relativize(file).toString), StandardCopyOption.COPY_ATTRIBUTES)
      }
    finally files.close()
    ask(copy) shouldBe (Expected -> FilesOfTable)
  }

  test("no bit of an index's part that turns over hides a file") {
    val root = table()
    val whole = Files.readAllBytes(part(root))
    val dice = new Dice(FuzzedSpark.seed)
    val frame = spark.read.parquet(root.toUri.toString)
    val relation = frame.queryExecution.analyzed.collectFirst {
      case LogicalRelation(relation: HadoopFsRelation, _, _, _, _) => relation
    }.get
    val listed = relation.location.listFiles(Nil, Nil).flatMap(_.files)
    val holder = frame.where("id = 250").select("_metadata.file_name").head().getString(0)
    val file = listed.find(_.getPath.getName == holder).get
    var unusable = 0
    for (n <- 1 to Flips) {
      val (at, bit) = (dice.below(whole.length), dice.below(8))
      rewrite(part(root))(_ => whole.updated(at, (whole(at) ^ (1 << bit)).toByte))
      renew(root, s"flipped-$n")
      withClue(s"seed ${FuzzedSpark.seed}: bit $bit of byte $at of ${whole.length}") {
        IndexCatalog.find(spark, relation) match {
          case None => unusable += 1
          case Some(index) =>
            val number = index.find("", holder, file.getLen, file.getModificationTime)
            if (number < 0) unusable += 1
            val kept = index.select(FileFilter.among("id", RangeSet.Integral.points(Array(250L))))
            (number < 0 || kept.get(number)) shouldBe true
        }
      }
    }
    unusable should be > Flips / 10
  }
}
