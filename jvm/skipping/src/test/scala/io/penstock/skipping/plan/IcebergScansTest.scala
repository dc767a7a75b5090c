package io.penstock.skipping.plan

import scala.jdk.CollectionConverters._

import org.apache.iceberg.expressions.Expressions
import org.apache.iceberg.spark.source.{FilesSkippedByKeys, IndexedQueryScan}
import org.apache.iceberg.spark.{Spark3Util, SparkCatalog}
import org.apache.iceberg.types.{Conversions, Types}
import org.apache.iceberg.{DataFiles, Metrics}
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.{BatchScanExec, DataSourceV2ScanRelation}
import org.apache.spark.sql.execution.{SparkPlan, SubqueryBroadcastExec, SubqueryExec}
import org.apache.spark.sql.functions.col
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.model.SkippingCounters

/** Scans of Iceberg tables skip data files by the keys of joins, on columns that are no partitions. */
class IcebergScansTest extends AnyFunSuite with IndexedTables {

  override protected def settings: Map[String, String] = Map(
    "spark.sql.catalog.ice" -> classOf[SparkCatalog].getName,
    "spark.sql.catalog.ice.type" -> "hadoop",
    "spark.sql.catalog.ice.warehouse" -> directory.resolve("iceberg").toUri.toString,
    // A suite changes tables and asks again.
    "spark.sql.catalog.ice.cache-enabled" -> "false",
    "spark.sql.defaultCatalog" -> "ice"
  )

  private val Files = 8

  /** A table of eight files, of 100 keys each: `k` from 0 to 799, `s` the same as a text, and a value. */
  private def table(name: String, properties: (String, String)*): Unit = {
    val options = properties.map { case (key, value) => s"'$key' = '$value'" } :+ "'write.distribution-mode' = 'none'"
    spark.sql(
      s"CREATE TABLE ice.db.$name (k INT, s STRING, v BIGINT) USING iceberg TBLPROPERTIES (${options.mkString(", ")})"
    )
    append(name, 0)
  }

  private def append(name: String, from: Int): Unit =
    spark
      .range(from.toLong, from + 800L)
      .selectExpr("cast(id as int) k", "concat('a long common beginning of ', lpad(id, 6, '0')) s", "id % 7 v")
      .repartitionByRange(Files, col("k"))
      .sortWithinPartitions("k")
      .writeTo(s"ice.db.$name")
      .append()

  override def beforeAll(): Unit = {
    super.beforeAll()
    table("fact")
    spark.sql("CREATE TABLE ice.db.dim (d INT, t STRING, name STRING) USING iceberg")
    spark.sql(
      "INSERT INTO ice.db.dim SELECT k, s, concat('name-', k) FROM ice.db.fact UNION ALL SELECT NULL, NULL, 'nothing'"
    )
  }

  private def indexedScans(plan: SparkPlan): Seq[(String, Long)] = collectWithSubqueries(plan) {
    case scan: BatchScanExec if scan.scan.isInstanceOf[IndexedQueryScan] =>
      scan.table.name.split('.').last -> scan.metrics(FilesSkippedByKeys.Name).value
  }

  private def skipped(sql: String, table: String = "fact"): Seq[Long] =
    indexedScans(run(sql)).collect { case (`table`, files) => files }

  private def without(rule: Rule[_]) = "spark.sql.optimizer.excludedRules" -> rule.ruleName

  private val Excluded = without(SubqueryScans)

  /** How many scans there are, after a comparison of the rows with those without the rule. */
  private def scansOf(sql: String): Int = {
    def rows = spark.sql(sql).collect().toSeq
    assert(rows == withSettings(Excluded)(rows))
    scans(sql)
  }

  private def scans(sql: String): Int = allScans(run(sql)).size

  private def allScans(plan: SparkPlan): Seq[BatchScanExec] =
    collectWithSubqueries(plan) { case scan: BatchScanExec => scan }

  /** How many files Iceberg left to each scan of a table by its manifests. */
  private def filesPlanned(sql: String, table: String = "fact"): Seq[Long] =
    allScans(run(sql)).filter(_.table.name.endsWith(s".$table")).map(_.metrics("resultDataFiles").value).sorted

  private def descriptions(sql: String): Seq[String] = allScans(run(sql)).map(_.scan.description())

  private val Correlated =
    "SELECT count(*) FROM db.fact f WHERE k < 100 AND v >= (SELECT avg(v) FROM db.fact g WHERE g.k = f.k)"

  test("the filters of a subquery that became a join leave out files") {
    for (cbo <- Seq(false, true)) withSettings("spark.sql.cbo.enabled" -> cbo) {
      assert(filesPlanned(Correlated) == Seq(1, 1))
      assert(withSettings(without(LateFilters))(filesPlanned(Correlated)) == Seq(1, 8))
    }
    withSettings("spark.penstock.skipping.enabled" -> false)(assert(filesPlanned(Correlated) == Seq(1, 8)))
  }

  test("a filter that a scan has is not handed to it again") {
    val sql =
      "SELECT sum(v) FROM db.fact WHERE k <> 5 AND NOT (k = 6 AND v > 1) AND (K < 100 OR S LIKE 'b%') AND v IN (1, 2)"
    assert(descriptions(sql) == withSettings(without(LateFilters))(descriptions(sql)))
  }

  test("numbers that Iceberg compares otherwise than Spark are compared by Spark alone") {
    val rows = Seq("(double('NaN'), 1), (1D, 1)", "(-0D, 2)", "(NULL, 3)", "(7D, 4)")
    // By the bounds of the outer table Iceberg itself would leave out the rows that are asked about.
    for ((name, metrics) <- Seq("floats" -> "full", "unmeasured" -> "none")) {
      val options = s"'write.distribution-mode' = 'none', 'write.metadata.metrics.default' = '$metrics'"
      spark.sql(s"CREATE TABLE ice.db.$name (d DOUBLE, k INT) USING iceberg TBLPROPERTIES ($options)")
      rows.foreach(row => spark.sql(s"INSERT INTO db.$name VALUES $row"))
    }
    for ((condition, found) <- Seq("d > 5" -> 2, "d = 0" -> 1, "d IS NOT NULL" -> 4, "d < 5" -> 2)) {
      val sql = "SELECT f.k, f.d FROM db.unmeasured f " +
        s"WHERE $condition AND k >= (SELECT min(k) FROM db.floats g WHERE g.d = f.d)"
      run(sql)
      assert(spark.sql(sql).collect().length == found)
    }
  }

  test("partitions are pruned by a side of a join whose filters came late") {
    spark.sql("CREATE TABLE ice.db.pruned (v BIGINT, p INT) USING iceberg PARTITIONED BY (p)")
    spark.sql("INSERT INTO db.pruned SELECT id, cast(id % 8 as int) FROM range(800)")
    val sql = s"""
      SELECT count(*) FROM db.pruned JOIN (
        SELECT a.d FROM db.dim a WHERE a.d BETWEEN 2 AND 3 AND a.d >= (SELECT max(b.d) FROM db.dim b WHERE b.d = a.d)
      ) s ON p = s.d WHERE s.d <> 2"""
    def partitions = allScans(run(sql)).filter(_.table.name.endsWith(".pruned")).map(_.inputRDD.getNumPartitions)
    assert(partitions == withSettings(without(LateFilters))(partitions))
    assert(partitions == Seq(1))
  }

  test("parts of a query about the same rows read a table once, whenever the filters of each come") {
    val sql = """
      WITH totals AS (SELECT name, v, count(*) AS n FROM db.fact JOIN db.dim ON k = d WHERE k > 30 GROUP BY name, v)
      SELECT count(*) FROM totals a WHERE n > (SELECT avg(n) FROM totals b WHERE a.name = b.name) AND a.name > 'name-3'
    """
    withSettings("spark.penstock.skipping.dynamic.enabled" -> false) {
      assert(scans(sql) == 2)
      assert(withSettings(without(LateFilters))(scans(sql)) == 3)
    }
  }

  test("scalar subqueries about the same rows of a table read it once, whatever their columns") {
    val sums = Seq("count(*)", "avg(v)", "max(k)", "sum(length(s))")
    val asked =
      for (range <- Seq("k < 100", "k BETWEEN 150 AND 420"); sum <- sums)
        yield s"(SELECT $sum FROM db.fact WHERE $range)"
    val sql = s"SELECT ${asked.mkString(", ")}"
    assert(scansOf(sql) == 2 && withSettings(Excluded)(scans(sql)) == 6)
    withSettings("spark.sql.cbo.enabled" -> true)(assert(scansOf(sql) == 2))
  }

  test("so do those in conditions, and those of a former snapshot") {
    val snapshot = spark.sql("SELECT snapshot_id FROM db.fact.snapshots").head().getLong(0)
    val of = s"(SELECT %s FROM db.fact VERSION AS OF $snapshot WHERE k > 10)"
    val sql = s"SELECT count(*) FROM db.dim WHERE d < ${of.format("max(v)")} AND d < ${of.format("max(k)")}"
    assert(scansOf(sql) == 2)
  }

  test("scalar subqueries that Spark does not compute together read no more columns than they need") {
    def columns(sql: String) = collectWithSubqueries(run(sql)) { case scan: BatchScanExec =>
      scan.output.map(_.name)
    }.toSet
    val ranges = "SELECT (SELECT max(v) FROM db.fact WHERE k < 9), (SELECT count(s) FROM db.fact WHERE k < 8)"
    assert(scansOf(ranges) == 2 && columns(ranges) == Set(Seq("k", "v"), Seq("k", "s")))
    // A text has no place in a hash aggregation's buffer.
    val kinds = "SELECT (SELECT max(v) FROM db.fact WHERE k < 9), (SELECT max(s) FROM db.fact WHERE k < 9)"
    assert(scansOf(kinds) == 2 && columns(kinds) == Set(Seq("k", "v"), Seq("k", "s")))
    val snapshots = "SELECT (SELECT max(v) FROM db.fact WHERE k < 9), (SELECT count(t) FROM db.dim WHERE d < 9)"
    assert(scansOf(snapshots) == 2)
  }

  test("a scan skips the files that hold none of a broadcast's keys") {
    assert(skipped("SELECT sum(v) FROM db.fact JOIN db.dim ON k = d WHERE name IN ('name-3', 'name-250')") == Seq(6))
  }

  test("the keys are the broadcast's own: nothing is read for them") {
    val plan = run("SELECT sum(v) FROM db.fact JOIN db.dim ON k = d WHERE name = 'name-3'")
    val keys = collectWithSubqueries(plan) { case broadcast: SubqueryBroadcastExec => broadcast }
    assert(keys.nonEmpty && collectWithSubqueries(plan) { case run: SubqueryExec => run }.isEmpty)
    assert(plan.toString.contains("ReusedExchange"))
  }

  test("so it does without adaptive execution") {
    withSettings("spark.sql.adaptive.enabled" -> false) {
      assert(skipped("SELECT sum(v) FROM db.fact JOIN db.dim ON k = d WHERE name = 'name-3'") == Seq(7))
    }
  }

  test("so it does by keys that are run for it, where nothing is broadcast") {
    withSettings("spark.sql.autoBroadcastJoinThreshold" -> -1) {
      assert(skipped("SELECT sum(v) FROM db.fact JOIN db.dim ON k = d WHERE name = 'name-3'").max == 7)
    }
  }

  test("the keys may be texts, whose bounds Iceberg has cut") {
    assert(skipped("SELECT sum(v) FROM db.fact JOIN db.dim ON s = t WHERE name = 'name-3'") == Seq(0))
    table("finer", "write.metadata.metrics.column.s" -> "truncate(64)")
    assert(skipped("SELECT sum(v) FROM db.finer JOIN db.dim ON s = t WHERE name = 'name-3'", "finer") == Seq(7))
  }

  test("no key at all skips every file") {
    assert(skipped("SELECT count(v) FROM db.fact JOIN db.dim ON k = d WHERE name = 'nobody'").forall(_ == 8))
    assert(skipped("SELECT count(v) FROM db.fact JOIN db.dim ON k = d WHERE name = 'nothing'").forall(_ == 8))
  }

  test("a table whose metrics were not written is read whole") {
    table("uncounted", "write.metadata.metrics.default" -> "none")
    assert(skipped("SELECT sum(v) FROM db.uncounted JOIN db.dim ON k = d WHERE name = 'name-3'", "uncounted") == Seq(0))
  }

  test("the side that an outer join keeps is not filtered") {
    assert(
      skipped("SELECT count(*) FROM db.fact LEFT JOIN (SELECT * FROM db.dim WHERE name = 'name-3') ON k = d") == Seq(0)
    )
  }

  test("keys reach a table through another one") {
    table("returned")
    val sql =
      "SELECT count(*) FROM db.fact f JOIN db.returned r ON f.k = r.k JOIN db.dim ON r.k = d WHERE name = 'name-3'"
    assert(skipped(sql, "fact") == Seq(7))
    assert(skipped(sql, "returned") == Seq(7))
  }

  test("two uses of one table are filtered by the keys of their own joins") {
    val sql = "SELECT count(*) FROM db.fact JOIN db.dim ON k = d WHERE name = "
    val three = s"($sql 'name-3') UNION ALL ($sql 'name-250') UNION ALL (SELECT sum(v) FROM db.fact WHERE v > 1)"
    assert(skipped(three).sorted == Seq(0, 7, 7))
    val twice = s"WITH all AS (SELECT * FROM db.fact) SELECT count(*) FROM all a JOIN all b ON a.v = b.v " +
      "JOIN db.dim ON a.k = d WHERE name = 'name-3'"
    assert(skipped(twice).sorted == Seq(0, 7))
  }

  test("a query that is asked twice skips the same files twice") {
    val frame = spark.sql("SELECT sum(v) FROM db.fact JOIN db.dim ON k = d WHERE name = 'name-3'")
    assert(frame.collect().toSeq == frame.collect().toSeq)
    assert(frame.collect().toSeq == Seq(Row(3L)))
  }

  test("deleted rows, and columns that were renamed, widened, dropped and made again, change nothing") {
    table("changed", "write.delete.mode" -> "merge-on-read")
    spark.sql("DELETE FROM db.changed WHERE k IN (3, 250, 251)")
    spark.sql("ALTER TABLE db.changed RENAME COLUMN k TO key")
    spark.sql("ALTER TABLE db.changed ALTER COLUMN key TYPE BIGINT")
    spark.sql("ALTER TABLE db.changed DROP COLUMN v")
    spark.sql("ALTER TABLE db.changed ADD COLUMN v BIGINT")
    spark.sql(
      s"INSERT INTO db.changed SELECT /*+ COALESCE(1) */ * FROM VALUES (${1L << 40}, 'far', 3), (3, 'again', 250)"
    )
    val by = "SELECT count(*), sum(v) FROM db.changed JOIN db.dim ON"
    assert(skipped(s"$by key = d WHERE name IN ('name-3', 'name-4')", "changed") == Seq(7))
    // Only the last file has a value of the new column, and the others say nothing of it.
    withSettings("spark.penstock.skipping.dynamic.max.files.per.key" -> 1) {
      assert(skipped(s"$by v = d WHERE name = 'name-250'", "changed") == Seq(0))
      assert(skipped(s"$by v = d WHERE name = 'name-2'", "changed") == Seq(1))
    }
  }

  test("a snapshot of the past skips its own files") {
    table("older")
    val first = spark.sql("SELECT snapshot_id FROM db.older.snapshots").head().getLong(0)
    append("older", 100)
    val sql = s"SELECT count(*) FROM db.older VERSION AS OF $first JOIN db.dim ON k = d WHERE name = 'name-150'"
    assert(spark.sql(sql).head() == Row(1L))
    assert(skipped(sql, "older") == Seq(7))
    assert(skipped("SELECT count(*) FROM db.older JOIN db.dim ON k = d WHERE name = 'name-150'", "older") == Seq(14))
  }

  test("a former snapshot that is still the newest keeps the columns that it had") {
    val row = Row(3, 1, 2, 4)
    def reshaped(name: String)(changes: String*): Unit = {
      spark.sql(s"CREATE TABLE ice.db.$name (k INT, a INT, b INT, x INT) USING iceberg")
      spark.sql(s"INSERT INTO db.$name VALUES (3, 1, 2, 4)")
      val table = Spark3Util.loadIcebergTable(spark, s"ice.db.$name")
      val snapshot = table.currentSnapshot.snapshotId
      table.manageSnapshots.createTag("before", snapshot).commit()
      for (change <- changes) spark.sql(s"ALTER TABLE db.$name $change")
      for (version <- Seq("'before'", snapshot.toString); cbo <- Seq(true, false))
        withSettings("spark.sql.cbo.enabled" -> cbo) {
          val sql = s"SELECT k, a, b, x FROM db.$name VERSION AS OF $version JOIN db.dim ON k = d WHERE name = 'name-3'"
          assert(spark.sql(sql).collect().toSeq == Seq(row), s"$name, $version, cbo: $cbo")
        }
    }
    reshaped("remade")("DROP COLUMN x", "ADD COLUMN x INT")
    reshaped("swapped")("RENAME COLUMN a TO c", "RENAME COLUMN b TO a", "RENAME COLUMN c TO b")
    reshaped("unchanged")()
  }

  test("files are skipped by other columns beside the pruning of partitions") {
    spark.sql("CREATE TABLE ice.db.parts (k INT, p INT) USING iceberg PARTITIONED BY (p)")
    for (from <- 0 until 4)
      spark.sql(
        "INSERT INTO db.parts SELECT /*+ COALESCE(1) */ cast(id as int), cast(id % 2 as int) " +
          s"FROM range(${from * 10}, ${from * 10 + 10})"
      )
    val sql = "SELECT count(*) FROM db.parts JOIN db.dim ON"
    run(s"$sql p = d WHERE name = 'name-1'")
    // Of eight files the first of each partition may hold the key.
    assert(skipped(s"$sql k = d AND p = d WHERE name = 'name-1'", "parts").max == 6)
  }

  test("a merge reads the files alone that may hold a key of its source") {
    spark.sql("CREATE TABLE db.changes (id INT, n BIGINT) USING iceberg")
    spark.sql("INSERT INTO db.changes VALUES (3, 100), (900, 200), (NULL, 300)")
    val merge = "MERGE INTO db.merged USING db.changes ON k = id WHEN MATCHED THEN UPDATE SET v = n "
    for (
      (more, skips) <- Seq(
        "" -> 7,
        "WHEN NOT MATCHED THEN INSERT (k, s, v) VALUES (id, 'new', n)" -> 7,
        "WHEN NOT MATCHED BY SOURCE THEN DELETE" -> 0
      )
    ) withClue(more) {
      spark.sql("DROP TABLE IF EXISTS db.merged")
      table("merged", "write.merge.mode" -> "merge-on-read")
      val before = SkippingCounters.now().toMap
      spark.sql(merge + more)
      assert(SkippingCounters.now().toMap.apply("files_skipped") - before("files_skipped") == skips)
      assert(spark.sql("SELECT k, v FROM db.merged WHERE k = 3").collect().toSeq == Seq(Row(3, 100L)))
      val rows = if (more.contains("INSERT")) 802 else if (more.contains("DELETE")) 1 else 800
      assert(spark.table("db.merged").count() == rows)
    }
  }

  test("a merge notices two changes of one row, whatever files it leaves out") {
    table("twice", "write.merge.mode" -> "merge-on-read")
    spark.sql("CREATE TABLE db.double (id INT, n BIGINT) USING iceberg")
    spark.sql("INSERT INTO db.double VALUES (250, 100), (250, 200)")
    val refused = intercept[Exception](
      spark.sql("MERGE INTO db.twice USING db.double ON k = id WHEN MATCHED THEN UPDATE SET v = n")
    )
    assert(refused.toString.contains("MERGE_CARDINALITY_VIOLATION"))
  }

  test("metadata tables and empty tables are read as before") {
    spark.sql("CREATE TABLE ice.db.empty (k INT) USING iceberg")
    assert(spark.sql("SELECT count(*) FROM db.empty JOIN db.dim ON k = d").head() == Row(0L))
    run("SELECT count(*) FROM db.fact.files JOIN db.dim ON record_count = d WHERE name = 'name-100'")
  }

  test("EXPLAIN says by what files are skipped, and why not") {
    val skips = spark.sql("SELECT sum(v) FROM db.fact JOIN db.dim ON k = d WHERE name = 'name-3'")
    assert(
      skips.queryExecution
        .explainString(org.apache.spark.sql.execution.FormattedMode)
        .contains("SkippedFiles [on k: keys of dim]")
    )
    val not = spark.sql("SELECT sum(v) FROM db.fact JOIN db.dim ON v = d WHERE name = 'name-3'")
    assert(
      not.queryExecution
        .explainString(org.apache.spark.sql.execution.FormattedMode)
        .contains("on v: not attempted: a key is found in")
    )
  }

  test("the optimizer knows bounds and nulls from the manifests") {
    withSettings("spark.sql.cbo.enabled" -> true) {
      val plan =
        spark.sql("SELECT * FROM db.dim JOIN db.fact ON k = d WHERE s > 'a' AND t > 'a'").queryExecution.optimizedPlan
      val known = plan.collect { case relation: DataSourceV2ScanRelation => relation.stats.attributeStats }
      def column(name: String) = known.flatMap(_.find(_._1.name == name).map(_._2)).head
      assert(column("k").nullCount == Some(BigInt(0)) && column("d").nullCount == Some(BigInt(0)))
      assert(column("k").min == Some(0) && column("k").max == Some(799))
      assert(column("s").min.isEmpty && column("s").nullCount == Some(BigInt(0)))
    }
  }

  test("a join of tables whose distinct values were counted is not taken for a Cartesian product") {
    table("counted")
    for (name <- Seq("counted", "dim")) spark.sql(s"CALL ice.system.compute_table_stats(table => 'db.$name')")
    withSettings("spark.sql.cbo.enabled" -> true) {
      val plan = spark.sql("SELECT * FROM db.counted JOIN db.dim ON k = d").queryExecution.optimizedPlan
      assert(plan.stats.rowCount.exists(rows => rows > 400 && rows < 1600), plan.stats)
    }
  }

  test("times without a zone, which the optimizer cannot estimate, are compared") {
    val day = "TIMESTAMP_NTZ'2026-01-31 12:00:00'"
    spark.sql(
      s"CREATE TABLE db.local USING iceberg AS SELECT id AS k, $day + make_dt_interval(CAST(id AS INT)) AS at FROM range(9)"
    )
    withSettings("spark.sql.cbo.enabled" -> true) {
      for (counted <- Seq(false, true)) {
        if (counted) spark.sql("CALL ice.system.compute_table_stats(table => 'db.local')")
        for (
          (condition, rows) <- Seq(s"at > $day" -> 8, s"at = $day" -> 1, s"at IN ($day)" -> 1, "at IS NOT NULL" -> 9)
        )
          assert(
            spark.sql(s"SELECT count(*) FROM db.local JOIN db.dim ON k = d WHERE $condition").head().getLong(0) == rows,
            s"$condition, counted: $counted"
          )
      }
    }
  }

  test("a cached table is read again after a command has changed it") {
    withSettings("spark.sql.cbo.enabled" -> true) {
      for (change <- Seq("INSERT OVERWRITE db.cached SELECT * FROM db.fact WHERE k < 0", "TRUNCATE TABLE db.cached")) {
        table("cached")
        spark.sql("CACHE TABLE db.cached")
        assert(
          spark.sql("SELECT count(*), sum(d) FROM db.cached JOIN db.dim ON k = d").head().getLong(0) == 800,
          change
        )
        spark.sql(change)
        assert(spark.sql("SELECT count(*), sum(d) FROM db.cached JOIN db.dim ON k = d").head().getLong(0) == 0, change)
        spark.sql("DROP TABLE db.cached")
      }
    }
  }

  test("with skipping off, every file is read, and partitions are pruned as by Iceberg alone") {
    withSettings("spark.penstock.skipping.enabled" -> false) {
      assert(skipped("SELECT sum(v) FROM db.fact JOIN db.dim ON k = d WHERE name = 'name-3'") == Seq(0))
    }
  }

  test("verify mode reads all files, and finds a row of one that would have been skipped") {
    table("claimed")
    val sql = "SELECT sum(v) FROM db.claimed JOIN db.dim ON k = d WHERE name = 'name-3'"
    withSettings("spark.penstock.skipping.verify" -> true) {
      assert(skipped(sql, "claimed") == Seq(7))
      lie("claimed")
      val caught = intercept[Exception](spark.sql(sql).collect())
      assert(caught.toString.contains("A file that would have been skipped holds a row"))
    }
    assert(spark.sql(sql).head() == Row(null), "the manifest is believed")
  }

  /** Have the manifests say of the first file that its keys are around 5000. */
  private def lie(name: String): Unit = {
    val table = Spark3Util.loadIcebergTable(spark, s"ice.db.$name")
    val files = table.newScan.includeColumnStats.filter(Expressions.equal("k", 3)).planFiles
    val file = files.iterator.next().file
    val id = table.schema.findField("k").fieldId
    val bound = Map(Int.box(id) -> Conversions.toByteBuffer(Types.IntegerType.get, 5000)).asJava
    val metrics =
      new Metrics(file.recordCount, null, file.valueCounts, file.nullValueCounts, null, bound, bound)
    val lying = DataFiles.builder(table.spec).copy(file).withMetrics(metrics).withPath(file.location).build()
    table.newRewrite.deleteFile(file).addFile(lying).commit()
  }
}
