package io.penstock.fs.commit

import java.util.concurrent.{CountDownLatch, TimeUnit}

import scala.concurrent.ExecutionContext.Implicits.global
import scala.concurrent.duration._
import scala.concurrent.{Await, Future}

import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.functions.{col, udf}
import org.apache.spark.sql.types.IntegerType
import org.apache.spark.sql.{AnalysisException, DataFrame, Row, SparkSession}
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.testing.Store

/** A table that is overwritten is there until the new one is, whatever becomes of the query. */
class ReplaceTableTest extends AnyFunSuite with BeforeAndAfterAll {

  private lazy val bucket = Store.newBucket()

  private lazy val spark: SparkSession = CommittingSpark.start(
    master = "local[2]",
    more = Map(
      "spark.sql.extensions" -> classOf[CommitExtension].getName,
      "spark.sql.warehouse.dir" -> bucket.path("warehouse").toString
    )
  )

  override def afterAll(): Unit = spark.stop()

  private def rows(from: Int, to: Int): DataFrame =
    spark.range(from, to, 1, 2).selectExpr("id", "id % 3 as part")

  /** Rows of which one cannot be computed. */
  private def failing(rows: DataFrame): DataFrame = {
    val fail = udf { id: Long => if (id == 24) throw new IllegalStateException("this row fails") else id }
    rows.withColumn("id", fail(col("id")))
  }

  private def ids(table: String): Seq[Long] = spark.table(table).select("id").collect().map(_.getLong(0)).toSeq.sorted

  private def overwrite(frame: DataFrame, table: String, external: Boolean, by: String*): Unit = {
    val write = frame.write.mode("overwrite").partitionBy(by: _*)
    (if (external) write.option("path", bucket.path(table).toString) else write).saveAsTable(table)
  }

  /** The table's objects in the store without its commit log. */
  private def files(table: String): Seq[String] =
    bucket.list().filter(_.contains(table + "/")).filter(_.endsWith(".parquet"))

  for (external <- Seq(false, true); by <- Seq(Nil, Seq("part"))) {
    val kind = s"${if (external) "external" else "managed"}, ${if (by.isEmpty) "one directory" else "partitioned"}"
    val table = s"t_${external}_${by.size}"

    test(s"a table whose replacement fails is as before ($kind)") {
      overwrite(rows(0, 9), table, external, by: _*)
      val before = (files(table), entry(table).createTime)
      for (other <- Seq(rows(20, 25), rows(20, 25).withColumn("more", col("id"))))
        intercept[Exception](overwrite(failing(other), table, external, by: _*))
      intercept[AnalysisException](overwrite(rows(20, 25), table, external, "absent"))
      assert(ids(table) == (0L until 9L))
      assert((files(table), entry(table).createTime) == before)
    }

    test(s"a table is replaced by one with the same columns, of which nothing is left ($kind)") {
      val (before, made) = (files(table), entry(table).createTime)
      overwrite(rows(20, 25), table, external, by: _*)
      assert(ids(table) == (20L until 25L))
      assert(files(table).intersect(before) == Nil)
      assert(entry(table).createTime == made, "the catalog's entry has been made anew")
      if (by.nonEmpty)
        assert(spark.sql(s"SHOW PARTITIONS $table").collect().toSet == Set("part=0", "part=1", "part=2").map(Row(_)))
      overwrite(rows(21, 22), table, external, by: _*)
      if (by.nonEmpty) assert(spark.sql(s"SHOW PARTITIONS $table").collect().toSeq == Seq(Row("part=0")))
    }

    test(s"a table is replaced by one with other columns, options and partitions ($kind)") {
      val other = rows(3, 8).withColumn("day", col("id").cast(IntegerType)).drop("part")
      overwrite(other, table, external, "day")
      assert(ids(table) == (3L until 8L))
      assert(spark.table(table).columns.toSeq == Seq("id", "day"))
      assert(spark.sql(s"SHOW PARTITIONS $table").count() == 5)
      assert(spark.sql(s"SELECT id FROM $table WHERE day = 4").collect().toSeq == Seq(Row(4L)))
      assert(files(table).forall(_.contains("/day=")))
      spark.sql(s"DROP TABLE $table")
      assert(files(table).isEmpty == !external)
    }
  }

  test("the old rows are read while the query runs that replaces them") {
    overwrite(rows(0, 9), "seen", external = false)
    val query = Future(
      overwrite(ReplaceTableTest.held(rows(20, 22).withColumn("more", col("id"))), "seen", external = false)
    )
    assert(ReplaceTableTest.started.await(60, TimeUnit.SECONDS))
    try assert(ids("seen") == (0L until 9L))
    finally ReplaceTableTest.goOn.countDown()
    Await.result(query, 1.minute)
    assert(ids("seen") == Seq(20L, 21L))
  }

  test("a managed table takes the place of an external one, whose files stay, and the other way round, where they go") {
    overwrite(rows(0, 3), "moved", external = true)
    overwrite(rows(3, 6), "moved", external = false)
    assert(ids("moved") == (3L until 6L))
    assert(files("moved").map(_.takeWhile(_ != '/')).toSet == Set("moved", "warehouse"))
    overwrite(rows(6, 9), "moved", external = true)
    assert(ids("moved") == (6L until 9L))
    assert(files("moved").map(_.takeWhile(_ != '/')).toSet == Set("moved"))
  }

  test("a table's properties and comment go with it, as they do when it is dropped") {
    overwrite(rows(0, 3), "described", external = false)
    spark.sql("ALTER TABLE described SET TBLPROPERTIES ('owner.team' = 'sales', 'comment' = 'old')")
    overwrite(rows(3, 6), "described", external = false)
    assert(!entry("described").properties.contains("owner.team") && entry("described").comment.isEmpty)
  }

  test("a table that the query reads is not replaced by it") {
    overwrite(rows(0, 3), "itself", external = false)
    val refused = intercept[AnalysisException](overwrite(spark.table("itself"), "itself", external = false))
    assert(refused.getCondition == "UNSUPPORTED_OVERWRITE.TABLE")
    assert(ids("itself") == (0L until 3L))
  }

  test("a table on another file system is replaced as Spark does it") {
    val directory = java.nio.file.Files.createTempDirectory("penstock-test").resolve("local").toUri.toString
    for (n <- Seq(3, 5)) rows(0, n).write.mode("overwrite").option("path", directory).saveAsTable("local")
    assert(ids("local") == (0L until 5L))
  }

  test("Spark refuses to replace a table of files in SQL, or by its newer interface, and has lost nothing") {
    overwrite(rows(0, 3), "refused", external = false)
    for (how <- Seq("CREATE OR REPLACE", "REPLACE"))
      intercept[AnalysisException](spark.sql(s"$how TABLE refused USING parquet AS SELECT 1L AS id"))
    intercept[AnalysisException](rows(4, 5).writeTo("refused").using("parquet").createOrReplace())
    intercept[AnalysisException](rows(4, 5).writeTo("refused").using("parquet").replace())
    assert(ids("refused") == (0L until 3L))
  }

  private def entry(table: String): CatalogTable = spark.sessionState.catalog.getTableMetadata(TableIdentifier(table))
}

private object ReplaceTableTest {

  val started, goOn = new CountDownLatch(1)

  /** The rows, once they may be computed. */
  private def held(rows: DataFrame): DataFrame = {
    val hold = udf { id: Long =>
      started.countDown()
      goOn.await()
      id
    }
    // The other core reads.
    rows.coalesce(1).withColumn("id", hold(col("id")))
  }
}
