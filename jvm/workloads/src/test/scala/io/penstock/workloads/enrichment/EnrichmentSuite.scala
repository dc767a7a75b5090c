package io.penstock.workloads.enrichment

import java.nio.file.Files

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.functions._
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.application.UsageError
import io.penstock.workloads.tpcds._
import io.penstock.workloads.{LocalSpark, Report}

class EnrichmentSuite extends AnyFunSuite with LocalSpark {

  private lazy val sales = {
    spark.sql("CREATE DATABASE shop")
    val plan = TablePlan(TpcdsTable.named("web_sales").get, FactTable.named("web_sales"), Ranged(0, 1), chunks = 2)
    val _ = new TableLoader(spark, 0.001, uri("tables"), "shop").load(plan)
    new WebSales(spark, "shop")
  }
  private lazy val clicks = {
    val files = new ClickFiles(spark, uri("clicks"))
    files.write(sales, clicksPerLine = 2, seed = 5, objectSize = 64 << 10)
    files
  }
  private lazy val enriched = {
    Enrichment.write(Enrichment.enriched(sales.rows, clicks.lines()), uri("enriched"))
    spark.read.parquet(uri("enriched"))
  }
  private lazy val columns = sales.rows.columns.toSeq
  private lazy val source = WebSales.summary(sales.rows, columns)

  private def uri(name: String) = directory.resolve(name).toUri.toString.stripSuffix("/")

  private def wrongSales(tampered: org.apache.spark.sql.DataFrame) =
    EnrichmentVerdict.sales(source, WebSales.summary(tampered, columns)).get

  private def wrongClicks(tampered: org.apache.spark.sql.DataFrame) =
    EnrichmentVerdict.clicks(clicks.expected(), MeasuredEnrichment.matched(tampered)).get

  test("the log is the same however many tasks write it, and in the order of time") {
    val other = new ClickFiles(spark, uri("other-clicks"))
    other.write(sales, clicksPerLine = 2, seed = 5, objectSize = 1 << 30)
    assert(clicks.expected() == other.expected())
    assert(clicks.lines().exceptAll(other.lines()).isEmpty && other.lines().exceptAll(clicks.lines()).isEmpty)
    assert(clicks.bytes == other.bytes)
    val reckoned = other.expected().clicks * ClickFiles.AverageLine
    assert(math.abs(other.bytes.toDouble / reckoned - 1) < 0.05)
    val times = other.lines().select(col("at")).collect().map(_.getTimestamp(0).getTime)
    assert(times.sliding(2).forall(pair => pair.head <= pair.last))
  }

  test("a plain search over all clicks finds the same for each order line") {
    import spark.implicits._
    val log = clicks.lines().drop(ClickFiles.Unreadable).as[Click].collect()
    val bySession = log.groupBy(_.session)
    val found = log
      .filter(_.event == Click.Purchase)
      .flatMap { purchase =>
        val views =
          bySession(purchase.session).filter(view => view.event == Click.View && !view.at.isAfter(purchase.at))
        views.groupBy(_.item.get).map { case (item, of) =>
          (purchase.order_number.get, item) -> (of.length.toLong, of.maxBy(_.at).referrer.get)
        }
      }
      .toMap
    val lines = enriched.select("ws_order_number", "ws_item_sk", "clicks", "last_referrer").collect()
    assert(lines.length > 100)
    for (line <- lines) {
      val expected = found.get((line.getInt(0).toLong, line.getInt(1)))
      assert(Option.when(line.getLong(2) > 0)((line.getLong(2), line.getString(3))) == expected, line)
    }
  }

  test("some clicks belong to no order line, for each of the reasons, and some lines have none") {
    val expected = clicks.expected()
    assert(expected.lines < source.rows && expected.matched < expected.clicks)
    val log = clicks.lines()
    val buying = log.where("event = 'purchase'").select(col("session"), col("at").as("end"))
    assert(log.join(buying, "session").where("event = 'view' AND at > end").count() > 0)
    assert(log.join(buying, Seq("session"), "left_anti").count() > 0)
    assert(log.where("event = 'search'").count() == buying.count())
    assert(buying.count() == sales.rows.select("ws_order_number").distinct().count())
  }

  test("right results are called right") {
    assert(EnrichmentVerdict.sales(source, WebSales.summary(enriched, columns)).isEmpty)
    assert(EnrichmentVerdict.clicks(clicks.expected(), MeasuredEnrichment.matched(enriched)).isEmpty)
  }

  test("a sale that was lost, doubled, changed or left without its clicks is called wrong") {
    val one = enriched.where("clicks > 0").select("ws_order_number", "ws_item_sk").head()
    val its = col("ws_order_number") === one.get(0) && col("ws_item_sk") === one.get(1)
    assert(wrongSales(enriched.where(!its)).startsWith("rows: "))
    assert(wrongSales(enriched.where(!its).union(enriched.where(!its).limit(1))).startsWith("different order lines"))
    assert(
      wrongSales(enriched.withColumn("ws_net_paid", when(its, -1).otherwise(col("ws_net_paid")))).contains("net paid")
    )
    assert(
      wrongSales(enriched.withColumn("ws_web_page_sk", when(its, -1).otherwise(col("ws_web_page_sk"))))
        .startsWith("checksum")
    )
    assert(wrongClicks(enriched.withColumn("clicks", when(its, 0).otherwise(col("clicks")))).contains("matched clicks"))
    assert(
      wrongClicks(enriched.withColumn("last_referrer", when(its, "?").otherwise(col("last_referrer"))))
        .startsWith("checksum")
    )
  }

  test("lines of the log that were lost or cannot be read are called wrong, and so is a misplaced sale") {
    val expected = clicks.expected()
    assert(EnrichmentVerdict.log(expected, expected.clicks, 0).isEmpty)
    assert(EnrichmentVerdict.log(expected, expected.clicks - 1, 0).isDefined)
    assert(EnrichmentVerdict.log(expected, expected.clicks, 1).get.contains("unreadable lines: 1"))
    assert(EnrichmentVerdict.placement(0).isEmpty && EnrichmentVerdict.placement(2).isDefined)
  }

  test("the report says what was timed and that it was right; with a torn line in the log it does not") {
    def lines(log: ClickFiles) = {
      val report = directory.resolve("report.jsonl")
      Report.to(report.toUri.toString, spark.sparkContext.hadoopConfiguration) { report =>
        new MeasuredEnrichment(spark, sales, log, uri("measured"), report).run()
      }
      Files.readAllLines(report).asScala.toSeq
    }
    val whole = lines(clicks)
    assert(whole.count(_.contains("\"kind\":\"measure\"")) == 1)
    assert(whole.last.startsWith("""{"kind":"opened","files":"""))
    assert(whole.count(_.contains("\"right\":true")) == 4 && !whole.exists(_.contains("\"right\":false")))

    val torn = new ClickFiles(spark, uri("torn"))
    torn.write(sales, clicksPerLine = 2, seed = 5, objectSize = 64 << 10)
    val file =
      Files.walk(directory.resolve("torn")).iterator.asScala.filter(_.toString.endsWith(".json")).toSeq.sorted.last
    Files.writeString(file, Files.readString(file).dropRight(30))
    Files.deleteIfExists(file.resolveSibling(s".${file.getFileName}.crc"))
    assert(lines(torn).exists(line => line.contains("\"name\":\"log\"") && line.contains("\"right\":false")))
  }

  test("a database without sales is a sentence") {
    assert(intercept[UsageError](new WebSales(spark, "nowhere")).getMessage.contains("web_sales"))
  }
}
