package io.penstock.fs.commit

import org.apache.spark.sql.{DataFrame, SparkSession}
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.testing.Store

class SparkWritesTest extends AnyFunSuite with BeforeAndAfterAll {

  private lazy val bucket = Store.newBucket()
  private lazy val spark: SparkSession = CommittingSpark.start()

  override def afterAll(): Unit = spark.stop()

  import SparkWritesTest._

  private def rows(from: Int, to: Int): DataFrame =
    spark.range(from, to, 1, 2).selectExpr("id", "id % 3 as part")

  private def ids(table: String): Seq[Long] =
    spark.read.parquet(path(table)).select("id").collect().map(_.getLong(0)).toSeq.sorted

  private def path(table: String): String = bucket.path(table).toString

  /** The table's journal at rest, and no trace of how it came about. */
  private def assertClean(table: String): Unit = {
    assert(bucket.pendingUploads().isEmpty)
    val keys = bucket.list(table + "/")
    assert(keys.filter(_.contains("__magic")).isEmpty)
    val journal = keys.filter(_.contains(Journal.Directory))
    assert(journal.size == 1)
    assert(bucket.get(journal.head).exists(_.isEmpty))
  }

  test("appends add up") {
    rows(0, 5).write.parquet(path("appended"))
    rows(5, 9).write.mode("append").parquet(path("appended"))
    assert(ids("appended") == (0L until 9L))
    assertClean("appended")
  }

  test("an overwrite replaces everything, and the files of the table are the new job's only") {
    rows(0, 5).write.parquet(path("replaced"))
    val before = dataFiles(bucket.list("replaced/"))
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "static")
    try rows(5, 9).write.mode("overwrite").parquet(path("replaced"))
    finally spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    assert(ids("replaced") == (5L until 9L))
    assert(before.intersect(bucket.list("replaced/")).isEmpty)
    assertClean("replaced")
  }

  test("a dynamic partition overwrite replaces the partitions it writes to, and no other") {
    rows(0, 9).write.partitionBy("part").parquet(path("partitioned"))
    val untouched = bucket.list("partitioned/part=0/")
    rows(100, 110).filter("part <> 0").write.mode("overwrite").partitionBy("part").parquet(path("partitioned"))
    assert(ids("partitioned") == (Seq(0L, 3L, 6L) ++ (100L until 110L).filter(_ % 3 != 0)))
    assert(bucket.list("partitioned/part=0/") == untouched)
    assertClean("partitioned")
  }
}

object SparkWritesTest {
  private def dataFiles(keys: Seq[String]): Seq[String] = keys.filterNot(_.split('/').exists(_.startsWith("_")))
}
