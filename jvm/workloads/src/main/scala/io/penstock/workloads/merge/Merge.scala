package io.penstock.workloads.merge

import java.util.Locale

import org.apache.spark.sql.functions.{avg, sum}
import org.apache.spark.sql.{DataFrame, SparkSession}

import io.penstock.application.{Application, Arguments, UsageError}
import io.penstock.workloads.{DataFiles, Report}

/**
 * Loads an Iceberg table of orders, merges three batches of changes into it, and reads it. After each step every row is
 * compared with what it should be. Exit code 0 also where a row is wrong: the report says so.
 *
 * The table and its database are dropped at the end, and those that a killed attempt left at the start.
 */
object Merge extends Application {

  private val usage =
    "Merge --rows N --seed N --mode copy-on-write|merge-on-read --database NAME --location URI --report URI"
  private val known = Set("rows", "seed", "mode", "database", "location", "report")
  private val modes = Seq("copy-on-write", "merge-on-read")

  override def run(arguments: Seq[String]): Int = {
    val options = Arguments.parse(arguments, known, usage)
    val orders = Orders(options.long("rows", 1000000, atLeast = 1), options.long("seed", 1, atLeast = 0))
    val mode = options.required("mode")
    if (!modes.contains(mode)) throw new UsageError(s"There is no mode '$mode'.\nUsage: $usage")
    val database = options.required("database")
    val location = options.required("location").stripSuffix("/")
    val reportUri = options.required("report")
    val spark = SparkSession.builder().appName(s"MERGE into ${orders.rows} rows").getOrCreate()
    spark.sql(s"DROP DATABASE IF EXISTS `$database` CASCADE")
    spark.sql(s"CREATE DATABASE `$database` LOCATION '$location'")
    try
      Report.to(reportUri, spark.sparkContext.hadoopConfiguration) { report =>
        new MeasuredMerge(spark, orders, mode, s"`$database`.orders", location, report).run()
      }
    finally {
      spark.sql(s"DROP DATABASE `$database` CASCADE")
      spark.stop()
    }
    0
  }
}

private[merge] class MeasuredMerge(
    spark: SparkSession,
    orders: Orders,
    mode: String,
    table: String,
    location: String,
    report: Report
) {
  private val rows = new OrderRows(spark, orders)

  def run(): Unit = {
    measured("load", orders.rows)(load())
    check("load", Nil)
    for (batches <- Orders.batches.inits.toSeq.reverse.tail) {
      val batch = batches.last
      val changes = writeChanges(batch)
      measured(batch.name, changes)(merge(batch))
      check(batch.name, batches)
    }
    read()
  }

  private def load(): Unit = {
    rows.loaded().createOrReplaceTempView("loaded")
    spark.sql(
      s"""CREATE TABLE $table USING iceberg PARTITIONED BY (months(day)) LOCATION '$location/orders'
         |TBLPROPERTIES ('write.merge.mode' = '$mode', 'write.update.mode' = '$mode', 'write.delete.mode' = '$mode')
         |AS SELECT * FROM loaded""".stripMargin
    )
    ()
  }

  private def changesAt(batch: Batch) = s"$location/changes/${batch.name}"

  /** Writes the batch as the files that a merge reads; returns the number of changes. */
  private def writeChanges(batch: Batch): Long = {
    describe(s"write the changes of ${batch.name}")
    rows.changes(batch).write.parquet(changesAt(batch))
    spark.read.parquet(changesAt(batch)).count()
  }

  private def merge(batch: Batch): Unit = {
    spark.read.parquet(changesAt(batch)).createOrReplaceTempView("changes")
    spark.sql(
      s"""MERGE INTO $table o USING changes c ON o.id = c.id
         |WHEN MATCHED AND c.version > o.version AND c.op = 'delete' THEN DELETE
         |WHEN MATCHED AND c.version > o.version THEN UPDATE SET
         |  day = c.day, customer = c.customer, quantity = c.quantity, price = c.price, note = c.note,
         |  version = c.version
         |WHEN NOT MATCHED AND c.op = 'insert' THEN INSERT (id, day, customer, quantity, price, note, version)
         |  VALUES (c.id, c.day, c.customer, c.quantity, c.price, c.note, c.version)""".stripMargin
    )
    ()
  }

  /** Reads every row. The table's files by now include those of deletes. */
  private def read(): Unit = {
    val files = spark.sql(s"SELECT sum(file_size_in_bytes) FROM $table.files").head().getLong(0)
    val rows = spark.table(table).count()
    describe("read")
    val sums = spark.table(table).groupBy("day").agg(sum("price"), avg("quantity"), sum("version"))
    val (_, elapsedMs) = report.timed(sums.collect())
    report.measure("read", elapsedMs, 0, rows, "file_bytes" -> files)
  }

  /**
   * Measures a step that writes. The bytes of data and metadata that it adds follow from the mode, so they are a result
   * and no amount of work; no file is deleted meanwhile.
   */
  private def measured(name: String, count: Long)(work: => Unit): Unit = {
    val before = written()
    describe(name)
    val (_, elapsedMs) = report.timed(work)
    report.measure(name, elapsedMs, 0, count, "written_bytes" -> (written() - before))
  }

  private def written(): Long = DataFiles.bytes(s"$location/orders", spark.sparkContext.hadoopConfiguration)

  private def check(name: String, batches: Seq[Batch]): Unit = {
    describe(s"check the rows after $name")
    val expected = rows.after(batches)
    val verdict = MergeVerdict.of(spark.table(table), expected)
    val note = "each of %,d orders is right; %.2f MB of files by now"
    report.check(s"rows after $name", verdict, note.formatLocal(Locale.ROOT, expected.count(), written() / 1e6))
  }

  private def describe(step: String): Unit = spark.sparkContext.setJobDescription(step)
}

/** The orders and their changes as rows of the table's types. */
private[merge] class OrderRows(spark: SparkSession, orders: Orders) {
  import spark.implicits._

  def loaded(): DataFrame = {
    val of = orders
    priced(spark.range(of.rows).map(id => of.order(id, 0)).toDF())
  }

  def changes(batch: Batch): DataFrame = {
    val of = orders
    priced(spark.range(of.ids).flatMap(id => of.change(batch, id)).select("op", "order.*"))
  }

  def after(batches: Seq[Batch]): DataFrame = {
    val of = orders
    priced(spark.range(of.ids).flatMap(id => of.after(batches, id)).toDF())
  }

  // Scala's decimals have 18 digits after the point.
  private def priced(rows: DataFrame): DataFrame = rows.withColumn("price", $"price".cast("decimal(9,2)"))
}

/** The comparison of the table with what it should hold, row by row. */
private[merge] object MergeVerdict {

  private val Shown = 3

  /** What is wrong, if anything: the numbers of missing and unexpected rows, and the first few of both. */
  def of(found: DataFrame, expected: DataFrame): Option[String] = {
    val columns = expected.columns.toSeq
    if (found.columns.toSeq != columns)
      Some(s"columns ${found.columns.mkString(", ")} instead of ${columns.mkString(", ")}")
    else {
      val missing = expected.exceptAll(found)
      val unexpected = found.exceptAll(expected)
      val counts = (missing.count(), unexpected.count())
      Option.when(counts != ((0L, 0L))) {
        val shown = missing.take(Shown).map(row => s"- $row") ++ unexpected.take(Shown).map(row => s"+ $row")
        s"${counts._1} rows missing, ${counts._2} unexpected: ${shown.mkString("; ")}"
      }
    }
  }
}
