package io.penstock.skipping.plan

import java.nio.file.{Files, StandardCopyOption}

import scala.collection.mutable
import scala.concurrent.ExecutionContext.Implicits.global
import scala.concurrent.duration._
import scala.concurrent.{Await, Future}

import org.apache.spark.SparkException
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions.DynamicPruning
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec
import org.apache.spark.sql.functions.col
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.index.IndexCatalog

/** Queries end to end: which files their scans read, and that their answers are the same as without skipping. */
class SkipFilesTest extends AnyFunSuite with IndexedTables {

  private val answers = mutable.Map.empty[String, Set[Row]]

  // No test changes a table, so the four modes of a query have one truth.
  override protected def truth(sql: String): Set[Row] = answers.getOrElseUpdate(sql, super.truth(sql))

  private val star = "SELECT d_name, sum(v) FROM fact JOIN dim ON f_k = d_k WHERE d_name = 'name-3' GROUP BY d_name"

  override def beforeAll(): Unit = {
    super.beforeAll()
    // 10 files: f_k 0..99, 100 rows each; f_other in every file.
    val rows = spark
      .range(0, 1000)
      .selectExpr("cast(id div 10 as int) f_k", "id % 7 f_other", "id v", "concat('s', lpad(id, 5, '0')) s")
    val parts = directory.resolve("parts")
    spark
      .range(0, 800)
      .selectExpr("cast(id div 200 as int) p", "id % 200 k", "id v")
      .repartitionByRange(2, col("k"))
      .write
      .partitionBy("p")
      .parquet(parts.toString)
    register("parts", parts, Seq("k"))
    val small = spark.range(0, 100).selectExpr("cast(id as int) s_k", "cast(id as int) s_v")
    indexed("small", small, 2, "s_k", "s_k")
    indexed("fact", rows, 10, "f_k", "f_k", "f_other", "v", "s")
    spark
      .range(0, 100)
      .selectExpr("cast(id as int) d_k", "concat('name-', id) d_name", "id * 10 d_v")
      .write
      .parquet(directory.resolve("dim").toString)
    spark.read.parquet(directory.resolve("dim").toString).createOrReplaceTempView("dim")
  }

  private def everyMode(name: String)(body: => Unit): Unit =
    for (adaptive <- Seq(true, false); codegen <- Seq(true, false))
      test(s"$name (adaptive execution: $adaptive, code generation: $codegen)") {
        withSettings(
          "spark.sql.adaptive.enabled" -> adaptive,
          "spark.sql.codegen.wholeStage" -> codegen,
          "spark.sql.codegen.factoryMode" -> (if (codegen) "FALLBACK" else "NO_CODEGEN")
        )(body)
      }

  everyMode("a literal filter reads only the files that may match") {
    val plan = run("SELECT * FROM fact WHERE f_k = 42")
    assert(filesRead(plan, "fact") == Seq(1))
    assert(skippingScans(plan, "fact").map(_.metrics(SkippedFilesExec.FilesSkipped).value) == Seq(9))
  }

  everyMode("a filter that no file meets reads none, and an aggregate is still one row") {
    assert(filesRead(run("SELECT count(*), max(v) FROM fact WHERE f_k = 4200"), "fact") == Seq(0))
  }

  everyMode("the keys of a join read only the files that hold one, from one broadcast") {
    val plan = run(star)
    assert(filesRead(plan, "fact") == Seq(1))
    assert(filesRead(plan, "dim").size == 1, "the join's broadcast is reused")
    val node = skippingScans(plan, "fact").head
    assert(node.metrics(SkippedFilesExec.FilesListed).value == 10)
    assert(node.metrics(SkippedFilesExec.FilesSkipped).value == 9)
    assert(node.metrics(SkippedFilesExec.BytesSkipped).value > 0)
    assert(node.metrics(SkippedFilesExec.KeyIntervals).value == 1)
  }

  everyMode(
    "what Spark computes once without skipping it computes once with it, also where it would prune partitions"
  ) {
    val path = directory.resolve("stores")
    if (!path.toFile.exists) {
      val rows = spark.range(0, 2000).selectExpr("cast(id % 5 as int) store", "cast(id % 100 as int) units", "id v")
      rows.repartitionByRange(2, col("units")).write.partitionBy("store").parquet(path.toString)
      register("stores", path, Seq("units"))
    }
    def reused(plan: SparkPlan) =
      (scans(plan).size, collectWithSubqueries(plan) { case again: ReusedExchangeExec => again }.size)
    val query =
      "WITH v AS (SELECT store FROM stores WHERE units = 70) SELECT count(*) FROM v v1 JOIN v v2 USING (store)"
    withSettings("spark.sql.autoBroadcastJoinThreshold" -> -1) {
      for (dynamic <- Seq(true, false)) withSettings("spark.penstock.skipping.dynamic.enabled" -> dynamic) {
        assert(reused(run(query)) == ((1, 1)))
      }
    }
  }

  everyMode("keys are no condition on rows") {
    val plan = run(star)
    assert(collectWithSubqueries(plan) {
      case filter: FilterExec if filter.condition.exists(_.isInstanceOf[DynamicPruning]) => filter
    }.isEmpty)
  }

  // Spark takes a join's keys for a filter with a scalar subquery where the side that they come from has one.
  everyMode("keys of a side with a scalar subquery are no condition on rows, nor of the scan, and can be verified") {
    val query = "SELECT v FROM fact JOIN dim ON f_k = d_k WHERE d_name = (SELECT max(d_name) FROM dim WHERE d_k = 3)"
    val scan = scans(run(query)).filter(_.relation.location.isInstanceOf[SkippingFileIndex])
    assert(scan.flatMap(_.dataFilters).filter(_.exists(_.isInstanceOf[DynamicPruning])) == Nil)
    assert(filesRead(run(query), "fact") == Seq(1))
    withSettings("spark.penstock.skipping.verify" -> true) {
      assert(filesRead(run(query), "fact") == Seq(10))
    }
  }

  everyMode("a side without rows reads no file of the other") {
    assert(filesRead(run("SELECT v FROM fact JOIN dim ON f_k = d_k WHERE d_name = 'none'"), "fact").sum == 0)
  }

  everyMode("keys wider than the column are compared with it") {
    val plan = run("SELECT v FROM fact JOIN dim ON f_k = d_v WHERE d_name IN ('name-3', 'name-900', 'name-4')")
    assert(filesRead(plan, "fact") == Seq(2))
  }

  everyMode("a literal filter and keys both count") {
    val plan = run("SELECT v FROM fact JOIN dim ON f_k = d_k WHERE d_name IN ('name-3', 'name-77') AND v < 500")
    assert(filesRead(plan, "fact") == Seq(1))
  }

  everyMode("keys over the limit are shown as intervals") {
    withSettings("spark.penstock.skipping.dynamic.max.keys" -> 2) {
      val plan = run("SELECT v FROM fact JOIN dim ON f_k = d_k WHERE d_name IN ('name-3', 'name-7', 'name-77')")
      assert(filesRead(plan, "fact") == Seq(2))
      assert(skippingScans(plan, "fact").head.metrics(SkippedFilesExec.KeyIntervals).value == 2)
    }
  }

  everyMode("a scalar subquery's result reads only the files that may match") {
    val plan = run("SELECT v FROM fact WHERE f_k = (SELECT max(d_k) FROM dim WHERE d_name = 'name-5')")
    assert(filesRead(plan, "fact") == Seq(1))
  }

  everyMode("partitions that Spark leaves out at run time are none that were skipped") {
    val plan = run("SELECT v FROM parts JOIN dim ON p = d_k WHERE d_name = 'name-3' AND k < 10")
    val node = skippingScans(plan, "parts").head
    assert(node.metrics(SkippedFilesExec.FilesListed).value == 2)
    assert(node.metrics(SkippedFilesExec.FilesSkipped).value == 1)
    assert(filesRead(plan, "parts") == Seq(1))
  }

  everyMode("equal parts of a plan are still run once") {
    val sums = "SELECT f_k, sum(v) FROM fact WHERE f_k < 7 GROUP BY f_k"
    def reused(plan: SparkPlan) = collectWithSubqueries(plan) { case exchange: ReusedExchangeExec => exchange }.size
    val union = s"$sums UNION ALL $sums"
    assert(reused(run(union)) == 1)
  }

  everyMode("a view that is asked twice is read once, though its scan takes the keys of a join") {
    val sums = "SELECT d_name, sum(v) s FROM fact JOIN dim ON f_k = d_k WHERE d_name LIKE 'name-3%' GROUP BY d_name"
    val plan = run(s"WITH c AS ($sums) SELECT a.d_name, b.s FROM c a JOIN c b ON a.s = b.s")
    assert(filesRead(plan, "fact").size == 1)
  }

  everyMode("a broadcast is found again, whatever its side shows of its files") {
    val plan = run("SELECT /*+ BROADCAST(s) */ f.v FROM fact f JOIN small s ON f_k = s_k WHERE s_v = 3")
    assert(filesRead(plan, "fact") == Seq(1))
    assert(filesRead(plan, "small").size == 1)
    assert(skippingScans(plan, "small").flatMap(_.reasons).exists(_.contains("s_k: not attempted")))
  }

  test("a run for keys is a subquery: as the query itself it would wait for the scan that waits for it") {
    withSettings("spark.sql.adaptive.enabled" -> true, "spark.sql.autoBroadcastJoinThreshold" -> -1) {
      val join = "(SELECT sum(v) FROM fact JOIN dim ON f_k = d_k WHERE d_name = 'name-3')"
      val plan = run(s"SELECT $join + $join, sum(v) FROM fact JOIN dim ON f_k = d_k WHERE d_name = 'name-3'")
      val runs = scans(plan)
        .filter(isOf(_, "fact"))
        .flatMap(_.dataFilters.collect { case keys: SkippingKeys => keys.plan })
        .map {
          case ReusedSubqueryExec(run) => run
          case run => run
        }
      val plans = runs.collect { case SubqueryExec(_, adaptive: AdaptiveSparkPlanExec, _) => adaptive }
      assert(plans.nonEmpty && plans.size == runs.size && plans.forall(_.isSubquery))
    }
  }

  test("a plan can be shown while one of its scans waits for its keys, and so holds its lock") {
    withSettings("spark.sql.adaptive.enabled" -> false) {
      val join = "SELECT v FROM fact JOIN dim ON f_k = d_k WHERE d_name = 'name-3'"
      val scan = scans(spark.sql(join).queryExecution.executedPlan).find(isOf(_, "fact")).get
      assert(scan.dataFilters.exists(_.isInstanceOf[SkippingKeys]))
      val shown = scan.synchronized(Await.result(Future((scan.metadata, scan.metrics)), 30.seconds))
      assert(shown._1.contains("Location") && shown._2.contains("numFiles"))
    }
  }

  test("switched off, nothing is touched") {
    withSettings("spark.penstock.skipping.enabled" -> false) {
      val plan = run(star)
      assert(filesRead(plan, "fact") == Seq(10))
      assert(scans(plan).forall(!_.relation.location.isInstanceOf[SkippingFileIndex]))
    }
  }
}

/** Tables and files that skipping leaves alone, and the effect of an index that is wrong. */
class SkippingLimitsTest extends AnyFunSuite with IndexedTables {

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
      assert(skippingScans(plan, "numbers").map(_.metrics(SkippedFilesExec.FilesSkipped).value) == Seq(3))
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
        cause.getMessage.contains("would have been skipped holds a row of the query's result")
      })
    }
  }
}
