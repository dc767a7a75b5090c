package io.penstock.skipping.join

import java.io.File
import java.net.URI

import org.apache.spark.sql.Row
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanHelper, BroadcastQueryStageExec}
import org.apache.spark.sql.execution.exchange.{BroadcastExchangeExec, ReusedExchangeExec}
import org.apache.spark.sql.execution.{SparkPlan, SubqueryBroadcastExec, SubqueryExec}
import org.scalatest.funsuite.AnyFunSuite

class JoinSkippingTest extends AnyFunSuite with PlannedJoins with AdaptiveSparkPlanHelper {

  override protected val filesPerKey: Map[String, Map[String, Double]] = Map(
    "fact" -> Map("day" -> 0.1, "item" -> 0.2, "note" -> 1.0),
    "stock" -> Map("s_day" -> 0.1, "s_item" -> 0.2),
    "parted" -> Map("p_item" -> 0.2)
  )

  override def beforeAll(): Unit = {
    super.beforeAll()
    def table(name: String, rows: Int, columns: String): Unit =
      spark.range(rows).selectExpr(columns.split(";").toSeq: _*).coalesce(1).write.saveAsTable(name)
    table("fact", 20000, "int(id % 1000) day; int(id % 500) item; int(id % 7) note; id amount; string(id) text")
    table("stock", 20000, "int(id % 1000) s_day; int(id % 500) s_item; id quantity; string(id) s_text")
    table("days", 1000, "int(id) d; int(id / 7) week; int(id / 365) year; id d_long")
    table("items", 50, "int(id) i; string(id) name")
    table("measured", 450, "int(id) i; string(id) name")
    spark.sql("ANALYZE TABLE measured COMPUTE STATISTICS FOR ALL COLUMNS")
    spark
      .range(20000)
      .selectExpr("id quantity", "int(id % 500) p_item", "int(id % 5) p_day")
      .coalesce(1)
      .write
      .partitionBy("p_day")
      .saveAsTable("parted")
    spark.experimental.extraOptimizations = Seq(rule)
  }

  private def withSettings[T](values: (String, String)*)(body: => T): T = {
    values.foreach { case (key, value) => spark.conf.set(key, value) }
    try body
    finally values.foreach { case (key, _) => spark.conf.unset(key) }
  }

  private val noBroadcast = "spark.sql.autoBroadcastJoinThreshold" -> "-1"

  private def answer(sql: String): Seq[Row] = spark.sql(sql).collect().toSeq

  private def assertSameAnswer(sql: String): Unit = {
    val plain = withSettings("spark.penstock.skipping.enabled" -> "false")(answer(sql))
    assert(answer(sql) === plain)
  }

  private def physical(sql: String): SparkPlan = {
    val frame = spark.sql(sql)
    frame.collect()
    frame.queryExecution.executedPlan
  }

  private val star = "SELECT sum(amount) FROM fact JOIN days ON day = d WHERE year = 1"

  test("the selective side's keys filter the other side's scan") {
    assert(filtered(optimized(star)) === Set("fact.day"))
    assertSameAnswer(star)
  }

  for (adaptive <- Seq(true, false))
    test(s"the join's own broadcast gives the keys: it is computed once (adaptive: $adaptive)") {
      withSettings("spark.sql.adaptive.enabled" -> adaptive.toString) {
        val plan = physical(star)
        val keys = collectWithSubqueries(plan) { case keys: SubqueryBroadcastExec => keys }
        assert(keys.size === 1)
        assert(collectWithSubqueries(plan) { case run: SubqueryExec => run }.isEmpty)
        val broadcasts = collectWithSubqueries(plan) {
          case stage: BroadcastQueryStageExec if stage.broadcast.eq(stage.plan) => stage.plan
          case exchange: BroadcastExchangeExec if !adaptive => exchange
        }.distinct
        assert(broadcasts.size === 1)
        assert(collectWithSubqueries(plan) { case reused: ReusedExchangeExec => reused }.size === 1)
      }
    }

  for (adaptive <- Seq(true, false))
    test(s"a shuffled join's small side is run a second time (adaptive: $adaptive)") {
      withSettings("spark.sql.adaptive.enabled" -> adaptive.toString, noBroadcast) {
        assert(filtered(optimized(star)) === Set("fact.day"))
        assert(collectWithSubqueries(physical(star)) { case run: SubqueryExec => run }.size === 1)
        assertSameAnswer(star)
      }
    }

  test("a shuffled join's large side is not run a second time") {
    withSettings(noBroadcast, "spark.penstock.skipping.dynamic.second.run.max.bytes" -> "1") {
      assert(filtered(optimized(star)) === Set.empty)
    }
  }

  test("a large side of which its own keys leave little is run a second time, having skipped the rest") {
    val sql = "SELECT sum(amount) FROM fact JOIN stock ON item = s_item JOIN days ON s_day = d WHERE week = 3"
    val stock = spark.table("stock").inputFiles.map(file => new File(new URI(file)).length).sum
    for (table <- Seq("stock", "days")) spark.sql(s"ANALYZE TABLE $table COMPUTE STATISTICS FOR ALL COLUMNS")
    withSettings(noBroadcast, "spark.penstock.skipping.dynamic.second.run.max.bytes" -> (stock / 2).toString) {
      // Nobody knows how many keys there will be.
      assert(filtered(optimized(sql)) === Set("stock.s_day"))
      withSettings("spark.sql.cbo.enabled" -> "true") {
        val plan = optimized(sql)
        assert(filtered(plan) === Set("stock.s_day", "fact.item"))
        val keys = filters(plan).collectFirst { case ("fact", "item", filter) => filter.buildQuery }.get
        assert(filtered(keys) === Set("stock.s_day"))
        assertSameAnswer(sql)
      }
    }
  }

  test("a side is not run a second time for what broadcasts leave of the other, whichever join is the upper one") {
    for (table <- Seq("fact", "stock", "days")) spark.sql(s"ANALYZE TABLE $table COMPUTE STATISTICS FOR ALL COLUMNS")
    val (days, stock) =
      ("JOIN days ON day = d", "JOIN (SELECT s_item FROM stock WHERE s_text LIKE '1%') ON item = s_item")
    // Of the sides, some days alone are as small.
    withSettings("spark.sql.cbo.enabled" -> "true", "spark.sql.autoBroadcastJoinThreshold" -> "1000") {
      for (joins <- Seq(s"$days $stock", s"$stock $days")) {
        val all = s"SELECT sum(amount) FROM fact $joins"
        assert(filtered(optimized(all)) === Set("fact.item"))
        val some = s"$all WHERE d < 5"
        assert(filtered(optimized(some)) === Set("fact.day"))
        assertSameAnswer(some)
      }
    }
  }

  test("a filter goes to no side whose rows survive without a partner") {
    val days = "(SELECT * FROM days WHERE year = 1)"
    def factOnTheLeft(kind: String) = filtered(optimized(s"SELECT * FROM fact $kind JOIN $days ON day = d"))
    assert(factOnTheLeft("INNER") === Set("fact.day"))
    assert(factOnTheLeft("LEFT OUTER") === Set.empty)
    assert(factOnTheLeft("RIGHT OUTER") === Set("fact.day"))
    assert(factOnTheLeft("FULL OUTER") === Set.empty)
    assert(factOnTheLeft("LEFT ANTI") === Set.empty)
    assert(factOnTheLeft("LEFT SEMI") === Set("fact.day"))
    def factOnTheRight(kind: String) = filtered(optimized(s"SELECT * FROM $days $kind JOIN fact ON day = d"))
    assert(factOnTheRight("INNER") === Set("fact.day"))
    assert(factOnTheRight("LEFT OUTER") === Set("fact.day"))
    assert(factOnTheRight("RIGHT OUTER") === Set.empty)
    assert(factOnTheRight("FULL OUTER") === Set.empty)
    assert(factOnTheRight("LEFT ANTI") === Set.empty)
    assert(factOnTheRight("LEFT SEMI") === Set("fact.day"))
  }

  test("IN and EXISTS filter, NOT IN and NOT EXISTS do not") {
    def of(condition: String) = filtered(optimized(s"SELECT * FROM fact WHERE $condition"))
    assert(of("day IN (SELECT d FROM days WHERE year = 1)") === Set("fact.day"))
    assert(of("EXISTS (SELECT * FROM days WHERE year = 1 AND d = day)") === Set("fact.day"))
    assert(of("day NOT IN (SELECT d FROM days WHERE year = 1)") === Set.empty)
    assert(of("NOT EXISTS (SELECT * FROM days WHERE year = 1 AND d = day)") === Set.empty)
    assert(of("amount > 5 OR day IN (SELECT d FROM days WHERE year = 1)") === Set.empty)
  }

  test("a null-safe equality gives no keys") {
    assert(filtered(optimized(star.replace("day = d ", "day <=> d "))) === Set.empty)
    val mixed = "SELECT * FROM fact JOIN days ON day = d AND item <=> week WHERE year = 1"
    assert(filtered(optimized(mixed)) === Set("fact.day"))
    assertSameAnswer(mixed.replace("*", "sum(amount)"))
  }

  test("a column that the join widens is filtered; one it narrows or computes with is not") {
    def on(condition: String) = filtered(optimized(s"SELECT * FROM fact JOIN days ON $condition WHERE year = 1"))
    assert(on("day = d_long") === Set("fact.day"))
    assert(on("cast(amount as int) = d") === Set.empty)
    assert(on("day + 1 = d") === Set.empty)
    assert(on("cast(day as string) = cast(d as string)") === Set.empty)
    assertSameAnswer("SELECT sum(amount) FROM fact JOIN days ON day = d_long WHERE year = 1")
  }

  test("a filter passes a grouping by its column") {
    val sql = "SELECT * FROM (SELECT day, sum(amount) FROM fact GROUP BY day) JOIN days ON day = d WHERE year = 1"
    assert(filtered(optimized(sql)) === Set("fact.day"))
  }

  test("no filter passes a limit, a sample, a window over all rows or a grouping by other columns") {
    def over(fact: String) = {
      val plan = optimized(s"SELECT * FROM ($fact) JOIN days ON day = d WHERE year = 1")
      assert(allFilters(plan).isEmpty)
    }
    over("SELECT * FROM fact LIMIT 10")
    over("SELECT * FROM fact TABLESAMPLE (10 PERCENT)")
    over("SELECT day, row_number() OVER (ORDER BY amount) FROM fact")
    over("SELECT max(day) AS day FROM fact GROUP BY item")
  }

  test("keys of a side that need not be the same twice are not used") {
    def from(days: String) = filtered(optimized(s"SELECT * FROM fact JOIN ($days) ON day = d"))
    assert(from("SELECT d FROM days WHERE year = 1") === Set("fact.day"))
    assert(from("SELECT d FROM days WHERE year = 1 LIMIT 5") === Set.empty)
    assert(from("SELECT d FROM days WHERE year = 1 AND rand() > 0.5") === Set.empty)
    assert(from("SELECT d FROM (SELECT d, row_number() OVER (ORDER BY year) r FROM days) WHERE r < 5") === Set.empty)
  }

  test("the joins of a star each filter") {
    val sql = "SELECT sum(amount) FROM fact JOIN days ON day = d JOIN items ON item = i WHERE year = 1 AND name = '7'"
    assert(filtered(optimized(sql)) === Set("fact.day", "fact.item"))
    assertSameAnswer(sql)
  }

  test("every branch of a union is filtered") {
    val sql =
      "SELECT * FROM (SELECT day FROM fact UNION ALL SELECT s_day FROM stock) JOIN days ON day = d WHERE year = 1"
    assert(filtered(optimized(sql)) === Set("fact.day", "stock.s_day"))
  }

  test("a filter reaches a table through a table that itself is not filtered") {
    val sql = """SELECT sum(quantity) FROM fact JOIN stock ON item = s_item JOIN days d1 ON day = d1.d
                |JOIN days d2 ON s_day = d2.d AND d1.week = d2.week WHERE d1.year = 1""".stripMargin
    val plan = optimized(sql)
    assert(filtered(plan) === Set("fact.day", "stock.s_day"))
    assertSameAnswer(sql)
    withSettings("spark.penstock.skipping.transitive.enabled" -> "false") {
      assert(filtered(optimized(sql)) === Set("fact.day"))
    }
  }

  test("a filter reaches a second fact table that is joined by the same key") {
    val sql = "SELECT sum(quantity) FROM fact JOIN stock ON item = s_item JOIN items ON item = i WHERE name = '7'"
    assert(filtered(optimized(sql)) === Set("fact.item", "stock.s_item"))
    assertSameAnswer(sql)
  }

  test("a filter reaches the rows of a grouping by what the groups are asked for") {
    val sums = "SELECT week AS w, sum(amount) AS s FROM fact JOIN days ON day = d GROUP BY week"
    val sql = s"SELECT sum(s) FROM ($sums) JOIN (SELECT DISTINCT week FROM days WHERE year = 1) ON w = week"
    assert(filtered(optimized(sql)) === Set("fact.day"))
    assertSameAnswer(sql)
    val others = s"SELECT sum(s) FROM ($sums) JOIN (SELECT DISTINCT week FROM days WHERE year = 1) ON s = week"
    assert(filtered(optimized(others)) === Set.empty)
  }

  private val partitioned = """SELECT sum(quantity) FROM fact JOIN parted ON item = p_item JOIN days d1 ON day = d1.d
    |JOIN days d2 ON p_day = d2.d AND d1.week = d2.week WHERE d1.year = 0 AND d1.d < 3""".stripMargin

  private val sums = "WITH sums AS (SELECT item, sum(amount) sum FROM fact GROUP BY item)"
  private def sumOf(name: String) = s"SELECT item, sum FROM sums JOIN items ON item = i WHERE name = '$name'"

  test("one of two equal groupings is not filtered: Spark computes them once") {
    val sql = s"$sums ${sumOf("7")} UNION ALL SELECT item, sum FROM sums WHERE item IS NOT NULL"
    assert(filtered(optimized(sql)) === Set.empty)
    assert(decisions(optimized(sql))("fact").map(_.reason).exists(_.contains("an equal part of the query")))
    assertSameAnswer(sql)
  }

  test("one of two equal sides that are broadcast is not filtered: Spark broadcasts them once") {
    val names = Seq("a", "b", "c")
    val sql =
      "SELECT count(*) FROM stock a JOIN stock b ON a.s_day = b.s_day JOIN stock c ON b.s_day = c.s_day WHERE " +
        names.map(name => s"$name.s_item = 1").mkString(" AND ")
    assert(filters(optimized(sql)).map(_._3.pruningKey).toSet.size === 1)
    assert(decisions(optimized(sql))("stock").map(_.reason).exists(_.contains("an equal part of the query")))
    assertSameAnswer(sql)
  }

  test("equal groupings are filtered by the keys that all of them have where one has no others") {
    val sums = "WITH sums AS (SELECT item, day, sum(amount) sum FROM fact WHERE day IS NOT NULL GROUP BY item, day)"
    val named = s"$sums, named AS (SELECT item, day, sum FROM sums JOIN items ON item = i WHERE name = '7')"
    val sql = s"$named SELECT item, day, sum FROM named UNION ALL " +
      "SELECT item, day, sum FROM named JOIN days ON day = d WHERE year = 1"
    assert(filters(optimized(sql)).map(_._2) === Seq("item", "item"))
    assert(decisions(optimized(sql))("fact").map(_.reason).exists(_.contains("an equal part of the query")))
    assertSameAnswer(sql)
  }

  test("equal groupings of a join stay equal, too, whose tables are filtered below them") {
    val sums = "WITH sums AS (SELECT item, sum(amount) sum FROM fact JOIN stock ON item = s_item GROUP BY item)"
    val sql = s"$sums ${sumOf("7")} UNION ALL SELECT item, sum FROM sums WHERE item IS NOT NULL"
    assert(filtered(optimized(sql)) === Set.empty)
    assertSameAnswer(sql)
  }

  test("equal groupings are filtered each by its own keys unless that is known to read more than one of them") {
    val few = s"$sums ${sumOf("7")} UNION ALL ${sumOf("8")}"
    val many = few.replace("name =", "name >")
    for (unknown <- Seq(few, many)) assert(filters(optimized(unknown)).map(_._2) === Seq("item", "item"))
    assertSameAnswer(few)
    def known(sql: String) = sql.replace("items", "measured")
    withSettings("spark.sql.cbo.enabled" -> "true") {
      assert(filters(optimized(known(few))).map(_._2) === Seq("item", "item"))
      assert(filtered(optimized(known(many))) === Set.empty)
      assert(decisions(optimized(known(many)))("fact").map(_.reason).exists(_.contains("an equal part of the query")))
      assertSameAnswer(known(many))
    }
  }

  test("partitions are pruned through a table that itself is not filtered, where Spark prunes none") {
    withSettings("spark.penstock.skipping.transitive.enabled" -> "false") {
      assert(!filtered(optimized(partitioned))("parted.p_day"))
    }
    assert(filtered(optimized(partitioned))("parted.p_day"))
    assertSameAnswer(partitioned)
  }

  test("Spark's own pruning of partitions stays as it is") {
    val plan = optimized("SELECT * FROM parted JOIN days ON p_day = d WHERE year = 0 AND week = 0")
    assert(filters(plan).map(found => found._1 + "." + found._2) === Seq("parted.p_day"))
  }

  test("a preserved side is not filtered through the other one") {
    val sql =
      "SELECT * FROM fact LEFT JOIN (SELECT * FROM stock JOIN items ON s_item = i WHERE name = '7') ON item = s_item"
    assert(filtered(optimized(sql)) === Set("stock.s_item"))
  }

  test("run once more, the rule changes nothing") {
    // A copy: of a plan that it has just returned, the rule says so without a look.
    val plan = optimized(star).clone()
    assert(rule(plan) eq plan)
  }

  test("a plan that changed since the rule returned it is decided on anew") {
    val plan = withSettings("spark.penstock.skipping.dynamic.enabled" -> "false")(optimized(star))
    val settled = rule(plan)
    assert(filtered(settled) === Set("fact.day"))
    assert(rule(settled) eq settled)
    assert(filtered(rule(DynamicFilter.strip(settled))) === Set("fact.day"))
  }

  test("nothing is filtered by columns whose files all hold every key, and the plan says why") {
    val plan = optimized("SELECT * FROM fact JOIN items ON note = i WHERE name = '3'")
    assert(filtered(plan) === Set.empty)
    assert(
      decisions(plan)("fact").map(_.toString) ===
        Seq("note: not attempted: a key is found in 100 % of the files (at most 50 % pays)")
    )
  }

  test("nothing is filtered by a side that is not filtered, and the plan says why") {
    val plan = optimized("SELECT * FROM fact JOIN items ON item = i")
    assert(filtered(plan) === Set.empty)
    assert(decisions(plan)("fact").map(_.toString) === Seq("item: not attempted: nothing filters items"))
  }

  test("where Spark's dynamic pruning is off, there are no filters that nobody would plan") {
    withSettings("spark.sql.optimizer.dynamicPartitionPruning.enabled" -> "false") {
      assert(allFilters(optimized(star)).isEmpty)
      assertSameAnswer(star)
    }
  }
}
