package io.penstock.catalog

import java.lang.reflect.{InvocationHandler, Proxy}
import java.util

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.iceberg.Schema
import org.apache.iceberg.catalog.TableIdentifier
import org.apache.iceberg.spark.source.SparkTable
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.catalyst.plans.logical.{AddPartitionField, CreateOrReplaceTag}
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.scalatest.funsuite.AnyFunSuite

class SessionCatalogTest extends AnyFunSuite {

  private val orders = Identifier.of(Array("sales"), "orders")

  /** Spark's catalog with one table of these properties, which notes what it is asked. */
  private final class Spark(first: (String, String)*) {
    var properties: Map[String, String] = first.toMap
    val asked: mutable.Buffer[String] = mutable.Buffer()

    val table: Table = new Table {
      override def name: String = "orders"
      override def capabilities: util.Set[TableCapability] = util.Set.of()
      override def columns: Array[Column] = Array()
      override def properties: util.Map[String, String] = Spark.this.properties.asJava
    }

    private val answers: InvocationHandler = (_, method, _) => {
      asked += method.getName
      method.getName match {
        case "loadTable" | "createTable" | "alterTable" => table
        case "tableExists" | "dropTable" => Boolean.box(true)
        case _ => null
      }
    }

    val catalog: SessionCatalog = {
      val interfaces =
        Array[Class[_]](classOf[TableCatalog], classOf[FunctionCatalog], classOf[SupportsNamespaces])
      val own = new SessionCatalog
      own.initialize("spark_catalog", CaseInsensitiveStringMap.empty)
      own.setDelegateCatalog(
        Proxy.newProxyInstance(getClass.getClassLoader, interfaces, answers).asInstanceOf[CatalogPlugin]
      )
      own
    }
  }

  private def info(provider: String): TableInfo =
    new TableInfo.Builder().withColumns(Array()).withProperties(util.Map.of("provider", provider)).build()

  test("a table of another format costs one question, as without this catalog") {
    val spark = new Spark("provider" -> "parquet")
    assert(spark.catalog.loadTable(orders) eq spark.table)
    assert(spark.asked == Seq("loadTable"))
  }

  test("a property that an Iceberg table has makes no other table one") {
    val spark =
      new Spark("provider" -> "parquet", "metadata_location" -> "s3a://lake/x.json", "table_type" -> "ICEBERG")
    assert(spark.catalog.loadTable(orders) eq spark.table)
    val view = new Spark("table_type" -> "ICEBERG")
    assert(view.catalog.loadTable(orders) eq view.table)
  }

  test("tables of other formats are made, changed and dropped by Spark") {
    val spark = new Spark("provider" -> "parquet")
    spark.catalog.createTable(orders, info("csv"))
    spark.catalog.alterTable(orders, TableChange.setProperty("a", "b"))
    assert(spark.catalog.dropTable(orders))
    spark.catalog.renameTable(orders, Identifier.of(Array("sales"), "old"))
    assert(spark.asked.filter(_ != "loadTable") == Seq("createTable", "alterTable", "dropTable", "renameTable"))
  }

  test("a table of another format is not replaced by an Iceberg table, since its rows could be lost") {
    val spark = new Spark("provider" -> "parquet")
    for (replace <- Seq(spark.catalog.stageReplace _, spark.catalog.stageCreateOrReplace _)) {
      val refused = intercept[UnsupportedOperationException](replace(orders, info("iceberg")))
      assert(refused.getMessage.contains("DROP TABLE sales.orders"))
    }
    assert(!spark.asked.contains("dropTable"))
  }

  test("an Iceberg table that was loaded before costs Iceberg's question alone, until it is none") {
    LocalSpark.using() { (_, warehouse) =>
      val spark = new Spark("provider" -> "hive", "metadata_location" -> "s3a://lake/x.json")
      spark.catalog.initialize(
        "spark_catalog",
        new CaseInsensitiveStringMap(util.Map.of("type", "hadoop", "warehouse", warehouse.toString))
      )
      val tables = spark.catalog.icebergCatalog()
      val name = TableIdentifier.of("sales", "orders")
      def snapshots: Int =
        spark.catalog.loadTable(orders).asInstanceOf[SparkTable].table().snapshots().asScala.size
      val table = tables.createTable(name, new Schema())
      assert(snapshots == 0)
      table.newAppend().commit()
      assert(snapshots == 1)
      assert(spark.asked == Seq("loadTable"))

      tables.dropTable(name)
      spark.properties = Map("provider" -> "parquet")
      assert(spark.catalog.loadTable(orders) eq spark.table)
      assert(spark.catalog.loadTable(orders) eq spark.table)
      assert(spark.asked == Seq.fill(3)("loadTable"))
    }
  }

  private val statements = new IcebergStatements(CatalystSqlParser)

  test("Iceberg's statements are parsed after any comment") {
    assert(statements.parsePlan("ALTER TABLE a.b ADD PARTITION FIELD days(at)").isInstanceOf[AddPartitionField])
    val commented = "/* one\n */ -- two\n\talter\n table a.b CREATE TAG before"
    assert(statements.parsePlan(commented).isInstanceOf[CreateOrReplaceTag])
  }

  test("every other statement is Spark's, also where it speaks of Iceberg's") {
    val query = "SELECT 'ALTER TABLE a CREATE TAG b'"
    assert(statements.parsePlan(query) == CatalystSqlParser.parsePlan(query))
    assert(statements.parseRoutineParam("x INT DEFAULT 1").map(_.name) == Seq("x"))
  }
}
