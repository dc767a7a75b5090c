package io.penstock.skipping.plan

import java.nio.file.{Files, StandardCopyOption}

import org.apache.spark.SparkException
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.index.IndexCatalog

/** What is left alone, and what an index that is wrong comes to. */
class SkippingLimitsSuite extends AnyFunSuite with IndexedTables {

  // Files of equal rows have equal lengths then: compressed sizes and checksums take as many bytes as their values need.
  override protected def settings: Map[String, String] = Map(
    "spark.sql.parquet.compression.codec" -> "uncompressed",
    "spark.hadoop.parquet.page.write-checksum.enabled" -> "false"
  )

  override def beforeAll(): Unit = {
    super.beforeAll()
    indexed("numbers", spark.range(0, 100).selectExpr("id k", "id % 10 v"), 4, "k", "k")
  }

  test("a rule that has been through a plan leaves it as it is") {
    val rule = new SkipFiles(relation => IndexCatalog.find(relation.sparkSession, relation), ready = true)
    val plan = spark.sql("SELECT v FROM numbers WHERE k = 7").queryExecution.executedPlan
    assert(scans(plan).map(_.relation.location.getClass) == Seq(classOf[SkippingFileIndex]))
    assert(rule(plan) eq plan)
  }

  test("scans of other sources are left alone") {
    val orc = directory.resolve("orc").toString
    spark.range(0, 100).toDF("k").write.orc(orc)
    def skipping(format: String, path: String): Boolean =
      scans(spark.read.format(format).load(path).where("k = 3").queryExecution.executedPlan)
        .exists(_.relation.location.isInstanceOf[SkippingFileIndex])
    val parquet = directory.resolve("numbers").toString
    assert(skipping("parquet", parquet))
    assert(!skipping("orc", orc))
    withSettings("spark.sql.sources.useV1SourceList" -> "")(assert(!skipping("parquet", parquet)))
  }

  test("EXPLAIN tells by what files are skipped, before the query has run") {
    val text = spark.sql("EXPLAIN SELECT v FROM numbers WHERE k = 7").head().getString(0)
    assert(text.contains("SkippedFiles [by filters on k]"), text)
  }

  test("verify mode answers from all files, and tells what would have been skipped") {
    withSettings("spark.penstock.skipping.verify" -> true) {
      val plan = run("SELECT v FROM numbers WHERE k = 7")
      assert(filesRead(plan, "numbers") == Seq(4))
      assert(told(plan, "numbers").map(_.metrics(SkippedFilesExec.FilesSkipped).value) == Seq(3))
    }
  }

  test("verify mode has nothing to verify in a scan without filters") {
    withSettings("spark.penstock.skipping.verify" -> true) {
      assert(filesRead(run("SELECT count(v) FROM numbers"), "numbers") == Seq(4))
    }
  }

  test("verify mode fails where a file that would be skipped holds what is asked for") {
    // Files of one length: the index knows one of the second table by the values of one of the first.
    val path = indexed("lie", spark.range(0, 16).toDF("k"), 2, "k", "k")
    val other = indexed("truth", spark.range(100, 116).toDF("k"), 2, "k", "k")
    val (lie, truth) = (dataFiles(path).head, dataFiles(other).head)
    assert(Files.size(lie) == Files.size(truth))
    val modified = Files.getLastModifiedTime(lie)
    Files.copy(truth, lie, StandardCopyOption.REPLACE_EXISTING)
    Files.deleteIfExists(lie.resolveSibling(s".${lie.getFileName}.crc"))
    Files.setLastModifiedTime(lie, modified)
    val query = "SELECT k FROM lie WHERE k = 103"
    assert(spark.sql(query).isEmpty, "the index is believed")
    withSettings("spark.penstock.skipping.verify" -> true) {
      val failure = intercept[SparkException](spark.sql(query).collect())
      assert(Iterator.iterate[Throwable](failure)(_.getCause).takeWhile(_ != null).exists { cause =>
        cause.getMessage.contains("would have been skipped holds a row the query is about")
      })
    }
  }
}
