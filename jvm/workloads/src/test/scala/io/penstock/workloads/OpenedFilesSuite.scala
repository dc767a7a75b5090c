package io.penstock.workloads

import org.apache.spark.sql.functions._
import org.apache.spark.sql.internal.SQLConf
import org.scalatest.funsuite.AnyFunSuite

class OpenedFilesSuite extends AnyFunSuite with LocalSpark {

  private lazy val tables: Map[String, Long] = {
    val facts = spark.range(1000).select(col("id").as("value"), (col("id") % 10).cast("int").as("day"))
    facts.repartition(10, col("day")).write.partitionBy("day").format("parquet").saveAsTable("facts")
    spark
      .range(10)
      .select(col("id").cast("int").as("d"), (col("id") * 100).as("rank"))
      .coalesce(1)
      .write
      .format("parquet")
      .saveAsTable("days")
    spark.range(50).repartition(5).write.parquet(directory.resolve("loose").toUri.toString)
    Seq("facts", "days")
      .map(name =>
        name -> spark.table(name).inputFiles.map(file => new java.io.File(new java.net.URI(file)).length).sum
      )
      .toMap
  }

  private def reads(sql: String, adaptive: Boolean = true): Map[String, TableRead] = {
    assert(tables.nonEmpty)
    spark.conf.set(SQLConf.ADAPTIVE_EXECUTION_ENABLED.key, adaptive)
    val frame = spark.sql(sql)
    frame.collect()
    TableReads.of(frame.queryExecution.executedPlan)
  }

  for (adaptive <- Seq(true, false)) {
    test(s"the files of partitions that were pruned at run time were not read, adaptive execution $adaptive") {
      val found = reads("SELECT sum(value) FROM facts JOIN days ON day = d WHERE rank < 200", adaptive)
      assert(found("facts").files == 2 && found("days").files == 1)
      assert(found("facts").bytes > 0 && found("facts").bytes < tables("facts") / 4)
      assert(found("days").bytes == tables("days"))
    }

    test(s"what a subquery reads is read, adaptive execution $adaptive") {
      val found = reads("SELECT count(*) FROM days WHERE d > (SELECT avg(day) FROM facts)", adaptive)
      assert(found.view.mapValues(_.files).toMap == Map("days" -> 1, "facts" -> 10))
    }

    test(s"a scan whose exchange is reused is read once, adaptive execution $adaptive") {
      val twice = "(SELECT day, sum(value) AS v FROM facts GROUP BY day)"
      val found = reads(s"SELECT * FROM $twice a JOIN $twice b ON a.day = b.day", adaptive)
      assert(found("facts").files == 10)
    }
  }

  test("a table that is read for two purposes counts twice") {
    assert(
      reads("SELECT max(value) FROM facts UNION ALL SELECT count(*) FROM facts WHERE value > 3")("facts").files == 20
    )
  }

  test("files without a table go by the name of their directory") {
    val _ = tables
    val place = directory.resolve("loose").toUri
    assert(reads(s"SELECT count(id) FROM parquet.`$place`").keySet == Set("loose"))
  }

  test("what a connector reads is not taken for nothing") {
    def complete(frame: org.apache.spark.sql.DataFrame) = TableReads.isComplete(frame.queryExecution.executedPlan)
    val generated = spark.read
      .format(classOf[io.penstock.workloads.tpcds.TpcdsSource].getName)
      .options(Map("table" -> "reason", "scale" -> "0.01"))
      .load()
    assert(tables.nonEmpty && complete(spark.table("days")))
    assert(!complete(generated))
    generated.createOrReplaceTempView("reason")
    assert(!complete(spark.sql("SELECT * FROM days WHERE d > (SELECT count(*) FROM reason)")))
  }

  test("all queries of a session count, those that write too, and only those from then on") {
    assert(reads("SELECT count(*) FROM days").contains("days"))
    val opened = new OpenedFiles(spark)
    assert(opened.count() == Some(0L))
    spark.table("facts").where("day < 3").write.parquet(directory.resolve("few").toUri.toString)
    spark.table("days").collect()
    intercept[Exception](spark.sql("SELECT assert_true(d < 0) FROM days").collect())
    assert(opened.count() == Some(4L))
    assert(opened.count() == Some(4L))
  }
}
