package io.penstock.workloads.tpcds

import io.trino.tpcds.Table
import org.apache.spark.sql.functions._
import org.apache.spark.sql.{DataFrame, Row}
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.workloads.LocalSpark

class TableLoaderSuite extends AnyFunSuite with LocalSpark {

  // A layout is two thousand tasks of a few rows: each would generate its code anew, to find it compiled already.
  override def beforeAll(): Unit = {
    super.beforeAll()
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
  }

  private val scale = 0.01

  private lazy val loader = {
    spark.sql("CREATE DATABASE IF NOT EXISTS tpcds")
    new TableLoader(spark, scale, directory.resolve("it's here").toUri.toString.stripSuffix("/"), "tpcds")
  }

  private def generated(name: String) =
    spark.read.format(classOf[TpcdsSource].getName).option("table", name).option("scale", scale.toString).load()

  private def plan(name: String, layout: Layout) =
    TablePlan(TpcdsTable.named(name).get, FactTable.named(name), layout, chunks = 3)

  private def requireSameRows(expected: DataFrame, found: DataFrame): Unit = {
    def counted(rows: DataFrame) =
      rows.select(expected.columns.toSeq.map(col): _*).collect().groupMapReduce(identity)(_ => 1)(_ + _)
    val rows = counted(expected)
    assert(rows.nonEmpty && counted(found) == rows)
  }

  private val layouts = Seq(
    Ranged(0, 3),
    Gridded(0, 7, 2, 2),
    Partitioned(0, Granularity.Year, 2, 1),
    Partitioned(0, Granularity.Quarter, 1, 2),
    Partitioned(0, Granularity.Month, 1, 1)
  )

  for (layout <- layouts) test(s"no row is lost or changed by $layout") {
    val loaded = loader.load(plan("web_returns", layout))
    requireSameRows(generated("web_returns"), spark.table("tpcds.web_returns"))
    assert(loaded.rows == spark.table("tpcds.web_returns").count())
  }

  private val byDay = Partitioned(0, Granularity.Day, 1, 1)

  // A loader by day is two thousand tasks: here they are those of twenty days, and its two halves are shown one by one.
  private def ofSomeDays =
    generated("web_returns").where("wr_returned_date_sk IS NULL OR wr_returned_date_sk % 100 = 0")

  test("by day, each row is in the task of its day, and those without a date in the last") {
    val items = TpcdsTable.session(scale).getScaling.getRowCount(Table.ITEM)
    val placed = new FactPlacement(FactTable.named("web_returns").get, items).place(ofSomeDays, byDay).rdd
    val date = ofSomeDays.columns.indexOf("wr_returned_date_sk")
    val firstDay = 2450815 // 1998-01-01
    val last = placed.getNumPartitions - 1
    val tasks = ofSomeDays.collect().toSeq.groupBy(row => if (row.isNullAt(date)) last else row.getInt(date) - firstDay)
    assert(tasks.size > 10 && tasks.contains(last))
    val (numbers, expected) = tasks.toSeq.unzip
    val found = spark.sparkContext.runJob(placed, (rows: Iterator[Row]) => rows.toArray, numbers)
    for ((one, other) <- expected.zip(found)) assert(one.sortBy(_.toString) == other.toSeq.sortBy(_.toString))
  }

  test("a table by day is registered with its date key as the partition column") {
    val from = directory.resolve("by day").toUri.toString.stripSuffix("/")
    ofSomeDays.coalesce(1).write.partitionBy("wr_returned_date_sk").parquet(s"$from/web_returns")
    val place = directory.resolve("registered").toUri.toString.stripSuffix("/")
    val _ = new TableLoader(spark, scale, place, "tpcds", Some(from)).load(plan("web_returns", byDay))
    requireSameRows(ofSomeDays, spark.table("tpcds.web_returns"))
    val partitioning = spark.catalog.listColumns("tpcds.web_returns").filter("isPartition").collect().map(_.name)
    assert(partitioning.toSeq == Seq("wr_returned_date_sk"))
  }

  test("a partition is of one span of dates, and its objects share the items out without overlap") {
    loader.load(plan("store_sales", Partitioned(0, Granularity.Year, 3, 2)))
    val objects = spark
      .table("tpcds.store_sales")
      .groupBy(col("ss_sold_year"), input_file_name().as("file"))
      .agg(min("ss_item_sk"), max("ss_item_sk"), min("ss_sold_date_sk"), max("ss_sold_date_sk"))
      .collect()
      .toSeq
    for ((year, files) <- objects.groupBy(_.get(0))) {
      val ranges = files.map(file => file.getInt(2) -> file.getInt(3)).sorted
      assert(ranges.size == (if (year == null) 2 else 3))
      assert(ranges.zip(ranges.tail).forall { case (one, next) => one._2 < next._1 })
    }
    val spans = objects.filterNot(_.isNullAt(0)).groupMapReduce(_.getInt(0))(file => (file.getInt(4), file.getInt(5))) {
      (one, other) => (math.min(one._1, other._1), math.max(one._2, other._2))
    }
    val byYear = spans.toSeq.sorted.map(_._2)
    assert(byYear.size >= 5 && byYear.zip(byYear.tail).forall { case (one, next) => one._2 < next._1 })
  }

  for (fact <- Seq(FactTable.named("catalog_sales").get, FactTable.inventory))
    test(s"objects of a date and an item range of ${fact.name} overlap in no more than one of the two") {
      val (dates, items) = (6, 2)
      val _ = loader.load(plan(fact.name, Gridded(0, dates, items, 1)).copy(fact = Some(fact)))
      val objects = spark
        .table(s"tpcds.${fact.name}")
        .where(col(fact.dateColumn).isNotNull)
        .groupBy(input_file_name())
        .agg(min(fact.dateColumn), max(fact.dateColumn), min(fact.itemColumn), max(fact.itemColumn))
        .collect()
        .toSeq
        .map(row => ((row.getInt(1), row.getInt(2)), (row.getInt(3), row.getInt(4))))
      def overlap(one: (Int, Int), other: (Int, Int)) = one._1 <= other._2 && other._1 <= one._2
      assert(objects.size == dates * items)
      for (Seq(one, other) <- objects.combinations(2)) assert(!(overlap(one._1, other._1) && overlap(one._2, other._2)))
    }

  test("inventory as it is generated lies in the order of its dates, so its files are of ranges of them") {
    loader.load(plan("inventory", Plain(0, 3)).copy(chunks = 3))
    val spans = spark
      .table("tpcds.inventory")
      .groupBy(input_file_name())
      .agg(min("inv_date_sk"), max("inv_date_sk"))
      .collect()
      .toSeq
      .map(row => (row.getInt(1), row.getInt(2)))
      .sorted
    assert(spans.size == 3 && spans.zip(spans.tail).forall { case (one, next) => one._2 <= next._1 })
  }

  test("a copy has the files of the original, its rows and its statistics, and replaces what was there") {
    val layout = plan("web_returns", Partitioned(0, Granularity.Year, 1, 1))
    val original = loader.load(layout)
    val place = directory.resolve("copy").toUri.toString.stripSuffix("/")
    def copied(from: String) = new TableLoader(spark, scale, place, "copied", Some(from))
    val _ = spark.sql("CREATE DATABASE IF NOT EXISTS copied")
    val from = directory.resolve("it's here").toUri.toString.stripSuffix("/")
    assert(copied(from).load(layout) == original)
    assert(copied(from).load(layout) == original)
    assert(spark.table("copied.web_returns").exceptAll(spark.table("tpcds.web_returns")).isEmpty)
    intercept[java.io.FileNotFoundException](copied(s"$place/nowhere").load(layout))
  }

  test("statistics are in the catalog: rows of the table, distinct values of its columns") {
    loader.load(plan("reason", Plain(0, 1)))
    val statistics = spark
      .sql("DESCRIBE EXTENDED tpcds.reason r_reason_sk")
      .collect()
      .map(row => row.getString(0) -> row.getString(1))
      .toMap
    assert(statistics("distinct_count").toInt == generated("reason").count())
  }

  test("no fact table has a date outside the years that partitions are made for") {
    val first = 2450815 // 1998-01-01
    val last = 2453005 // 2003-12-31
    for (fact <- FactTable.all) {
      val dates = generated(fact.name).agg(min(fact.dateColumn), max(fact.dateColumn)).head()
      assert(dates.getInt(0) >= first && dates.getInt(1) <= last, fact.name)
    }
  }
}
