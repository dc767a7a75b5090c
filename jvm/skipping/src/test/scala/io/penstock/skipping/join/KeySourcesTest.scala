package io.penstock.skipping.join

import org.apache.spark.sql.execution.datasources.{FileIndex, HadoopFsRelation, InMemoryFileIndex, LogicalRelation}
import org.scalatest.funsuite.AnyFunSuite

/** Which sides of a join may be run a second time for their keys. */
class KeySourcesTest extends AnyFunSuite with PlannedJoins {

  override protected val filesPerKey: Map[String, Map[String, Double]] = Map("fact" -> Map("item" -> 0.1))

  private lazy val tables: Unit =
    spark
      .range(100)
      .selectExpr(
        "id",
        "int(id % 10) AS k",
        "int(id) AS i",
        "string(id) AS s",
        "double(id) AS d",
        "decimal(id) AS small",
        "CAST(id AS DECIMAL(18, 2)) AS money",
        "CAST(id AS DECIMAL(38, 0)) AS wide",
        "string(id) COLLATE UTF8_LCASE AS folded"
      )
      .write
      .saveAsTable("rows")

  private def isRepeatable(sql: String): Boolean = {
    tables
    Repeatable(spark.sql(sql).queryExecution.optimizedPlan)
  }

  for (
    sql <- Seq(
      "SELECT k FROM rows WHERE i > 3",
      "SELECT DISTINCT k, s FROM rows",
      "SELECT k, count(*), count(DISTINCT s), min(s), max(i), min(struct(i, s)), max(array(i)) FROM rows GROUP BY k",
      "SELECT k, sum(i), sum(id), sum(small) FILTER (WHERE i > 3), avg(money) FROM rows GROUP BY k",
      "SELECT a.k FROM rows a JOIN rows b ON a.k = b.i UNION ALL SELECT i FROM rows",
      "SELECT k FROM rows WHERE i > (SELECT max(i) - 10 FROM rows)"
    )
  ) test(s"the same rows again: $sql")(assert(isRepeatable(sql)))

  for (
    function <- Seq(
      "first(i)",
      "last(i)",
      "any_value(i)",
      "collect_list(i)",
      "collect_set(i)",
      "max_by(i, k)",
      "min_by(i, k)",
      "mode(i)",
      "approx_percentile(i, 0.5)",
      "percentile(i, 0.5)",
      "approx_count_distinct(i)",
      "array_agg(s)",
      "listagg(s)",
      "avg(i)",
      "sum(d)",
      "min(d)",
      "max(struct(d, i))",
      "max(folded)",
      "sum(wide)",
      "try_sum(id)",
      "try_avg(money)",
      // Spark adds those up as doubles.
      "avg(small)",
      "bit_xor(i)",
      "count_if(i > 3) + first(i)"
    )
  ) test(s"maybe other rows: $function")(assert(!isRepeatable(s"SELECT k, $function FROM rows GROUP BY k")))

  test("maybe other rows: what keeps one row of several, or groups by what is equal and looks different") {
    tables
    assert(!Repeatable(spark.table("rows").dropDuplicates("k").queryExecution.optimizedPlan))
    for (column <- Seq("d", "folded")) assert(!isRepeatable(s"SELECT $column FROM rows GROUP BY $column"))
    for (
      sql <- Seq(
        "SELECT k FROM rows LIMIT 3",
        "SELECT k FROM rows ORDER BY s LIMIT 3",
        "SELECT k, row_number() OVER (ORDER BY k) FROM rows",
        "SELECT k FROM rows WHERE rand() < 0.5",
        "SELECT k FROM rows WHERE i > (SELECT first(i) FROM rows)",
        "SELECT k FROM rows TABLESAMPLE (10 PERCENT)"
      )
    ) assert(!isRepeatable(sql), sql)
  }

  test("a side that is run a second time reads the files that were listed for the first") {
    spark.range(20000).selectExpr("int(id % 500) item", "id amount").coalesce(1).write.saveAsTable("fact")
    spark.range(500).selectExpr("int(id) i", "int(id % 3) part").write.partitionBy("part").saveAsTable("parted")
    for (table <- Seq("fact", "parted")) spark.sql(s"ANALYZE TABLE $table COMPUTE STATISTICS")
    spark.experimental.extraOptimizations = Seq(rule)
    try {
      val sql = "SELECT sum(amount) FROM fact JOIN parted ON item = i WHERE i % 50 = 7"
      val plan = optimized(sql)
      val filter = filters(plan).collectFirst { case ("fact", "item", filter) => filter }.get
      assert(!filter.onlyInBroadcast)
      val listed = plan.collectWithSubqueries {
        case relation @ LogicalRelation(files: HadoopFsRelation, _, _, _, _) if tableName(relation) == "parted" =>
          files.location: FileIndex
      }
      assert(listed.size == 2 && listed.forall(_.isInstanceOf[InMemoryFileIndex]) && listed.forall(_ eq listed.head))
      assert(spark.sql(sql).head().getLong(0) == (0L until 20000L).filter(_ % 500 % 50 == 7).sum)
    } finally spark.experimental.extraOptimizations = Nil
  }
}
