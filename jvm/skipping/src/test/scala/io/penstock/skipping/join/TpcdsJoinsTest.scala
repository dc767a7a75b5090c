package io.penstock.skipping.join

import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Using

import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.ReusedSubqueryExec
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec
import org.apache.spark.sql.{TPCDSSchema, TPCDSTableStats, classic}
import org.scalatest.funsuite.AnyFunSuite

class TpcdsJoinsTest extends AnyFunSuite with PlannedJoins {

  override protected def settings: Map[String, String] =
    super.settings ++ Map("spark.sql.cbo.enabled" -> "true", "spark.sql.cbo.joinReorder.enabled" -> "true")

  private val facts = Map(
    "store_sales" -> "ss_sold",
    "store_returns" -> "sr_returned",
    "catalog_sales" -> "cs_sold",
    "catalog_returns" -> "cr_returned",
    "web_sales" -> "ws_sold",
    "web_returns" -> "wr_returned",
    "inventory" -> "inv"
  )

  // Files of a day each, each day cut into eight ranges of items.
  override protected val filesPerKey: Map[String, Map[String, Double]] = facts.map { case (table, dated) =>
    table -> Map(s"${dated}_date_sk" -> 1.0 / 1800, s"${dated.takeWhile(_ != '_')}_item_sk" -> 1.0 / 8)
  }

  private object Tables extends TPCDSSchema {
    def columns: Map[String, String] = tableColumns
  }

  override def beforeAll(): Unit = {
    super.beforeAll()
    val catalog = spark.asInstanceOf[classic.SparkSession].sessionState.catalog
    Tables.columns.foreach { case (table, columns) =>
      spark.sql(s"CREATE TABLE $table ($columns) USING parquet")
      // Spark's sizes are those of text.
      val statistics = TPCDSTableStats.sf100TableStats(table)
      catalog.alterTableStats(TableIdentifier(table), Some(statistics.copy(sizeInBytes = statistics.sizeInBytes / 5)))
    }
    spark.experimental.extraOptimizations = Seq(rule)
  }

  private def query(name: String): String =
    Using.resource(getClass.getResourceAsStream(s"/tpcds/$name.sql"))(in => new String(in.readAllBytes(), UTF_8))

  private val bySoldDate =
    Set("store_sales.ss_sold_date_sk", "catalog_sales.cs_sold_date_sk", "store_returns.sr_returned_date_sk")

  for (
    (name, expected) <- Seq(
      "q2" -> Set("catalog_sales.cs_sold_date_sk", "web_sales.ws_sold_date_sk"),
      "q17" -> bySoldDate,
      "q21" -> Set("inventory.inv_date_sk", "inventory.inv_item_sk"),
      "q25" -> bySoldDate,
      "q37" -> Set("inventory.inv_date_sk", "inventory.inv_item_sk", "catalog_sales.cs_item_sk"),
      "q59" -> Set("store_sales.ss_sold_date_sk"),
      "q72" -> Set("inventory.inv_date_sk", "catalog_sales.cs_sold_date_sk"),
      "q82" -> Set("inventory.inv_date_sk", "inventory.inv_item_sk", "store_sales.ss_item_sk")
    )
  ) test(s"$name: ${expected.mkString(", ")}") {
    assert(filtered(optimized(query(name))) === expected)
  }

  test("q14a: what Spark asks of two columns since they are equal is filtered by its dates in both places") {
    val plan = optimized(query("q14a"))
    val sold = Map("store_sales" -> "ss_sold", "catalog_sales" -> "cs_sold", "web_sales" -> "ws_sold")
    val scans = plan.collectWithSubqueries {
      case relation: LogicalRelation if sold.contains(tableName(relation)) => tableName(relation)
    }
    val byDate = filters(plan).collect {
      case (table, column, _) if sold.get(table).exists(column.startsWith) && column.endsWith("date_sk") => table
    }
    assert(scans.distinct.size === 3)
    assert(byDate.sorted === scans.sorted)
  }

  /** How often an exchange or a subquery takes the place of one that is computed anyway. */
  private def usedAgain(analyzed: LogicalPlan): Int =
    spark
      .asInstanceOf[classic.SparkSession]
      .sessionState
      .executePlan(analyzed)
      .executedPlan
      .collectWithSubqueries {
        case reused: ReusedExchangeExec => reused
        case reused: ReusedSubqueryExec => reused
      }
      .size

  test("whatever a query of TPC-DS computes once it computes once with skipping, too") {
    val names = (1 to 99).flatMap(n => Seq(s"q$n", s"q${n}a", s"q${n}b"))
    val queries = names.filter(name => getClass.getResource(s"/tpcds/$name.sql") != null)
    assert(queries.size == 103)
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    val lost =
      try
        queries.flatMap { name =>
          val analyzed = spark.sql(query(name)).queryExecution.analyzed
          spark.conf.set("spark.penstock.skipping.enabled", "false")
          val plain =
            try usedAgain(analyzed)
            finally spark.conf.unset("spark.penstock.skipping.enabled")
          // Where nothing takes another's place, nothing can be lost.
          val skipping = if (plain == 0) 0 else usedAgain(analyzed)
          Option.when(skipping < plain)(s"$name: $plain without skipping, $skipping with it")
        }
      finally spark.conf.unset("spark.sql.adaptive.enabled")
    assert(lost.isEmpty)
  }

  for (name <- Seq("q14a", "q23b", "q64", "q75", "q80", "q95"))
    test(s"$name: what the rule has filtered once it leaves alone") {
      // A copy: of a plan that it has just returned, the rule says so without a look.
      val plan = optimized(query(name)).clone()
      assert(rule(plan) eq plan)
    }
}
