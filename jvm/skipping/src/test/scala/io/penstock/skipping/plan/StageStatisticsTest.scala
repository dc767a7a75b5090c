package io.penstock.skipping.plan

import org.apache.spark.sql.catalyst.optimizer.BuildLeft
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.joins.BroadcastHashJoinExec
import org.apache.spark.sql.internal.SQLConf
import org.scalatest.funsuite.AnyFunSuite

class StageStatisticsTest extends AnyFunSuite with IndexedTables {

  private lazy val tables: Unit = {
    save("days", "SELECT id AS day, id DIV 30 AS month FROM range(1800)")
    save("returned", "SELECT id AS ticket, id % 700 AS item, id % 1800 AS day FROM range(18000)")
    save("sold", "SELECT id AS ticket, id % 700 AS item, id % 90 AS amount FROM range(180000)")
  }

  private val query =
    """SELECT sum(amount) FROM sold JOIN returned ON sold.ticket = returned.ticket AND sold.item = returned.item
      |JOIN days ON returned.day = days.day WHERE month = 7""".stripMargin

  private val costBased = Seq(
    SQLConf.CBO_ENABLED.key -> true,
    SQLConf.JOIN_REORDER_ENABLED.key -> true,
    SQLConf.AUTO_BROADCASTJOIN_THRESHOLD.key -> "30m"
  )

  private def save(name: String, rows: String): Unit = {
    spark.sql(rows).write.format("parquet").saveAsTable(name)
    val _ = spark.sql(s"ANALYZE TABLE $name COMPUTE STATISTICS FOR ALL COLUMNS")
  }

  /** The tables below the side of the join by ticket that was sent to all executors. */
  private def broadcast(plan: SparkPlan): Set[String] = {
    val join = collect(plan) { case join: BroadcastHashJoinExec if join.leftKeys.size > 1 => join }.head
    scans(if (join.buildSide == BuildLeft) join.left else join.right).flatMap(_.tableIdentifier).map(_.table).toSet
  }

  test(
    "what a stage's columns hold is known after it has run: a join above it is planned as before, not from nothing"
  ) {
    tables
    withSettings(costBased: _*)(assert(broadcast(run(query)) == Set("returned", "days")))
  }

  test("without, adaptive execution takes the join for a Cartesian product, and sends the largest table around") {
    tables
    val excluded = SQLConf.ADAPTIVE_OPTIMIZER_EXCLUDED_RULES.key -> StageStatistics.ruleName
    withSettings(costBased :+ excluded: _*)(assert(broadcast(run(query)) == Set("sold")))
  }
}
