package org.apache.spark.sql.penstock

import java.lang.reflect.{InvocationTargetException, Proxy}

import scala.collection.mutable
import scala.util.Try

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, ExternalCatalog, SessionCatalog}
import org.apache.spark.sql.connector.catalog.Identifier
import org.apache.spark.sql.execution.datasources.v2.V2SessionCatalog
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.catalog.LocalSpark

class MetastoreTablesTest extends AnyFunSuite {

  private val behindAnother = "spark.sql.catalog.spark_catalog" -> classOf[io.penstock.catalog.SessionCatalog].getName

  test("every kind of table and view, and a missing one, is what Spark's own catalog makes of it") {
    LocalSpark.using(behindAnother) { (spark, _) =>
      spark.sql("CREATE DATABASE sales")
      spark.sql("CREATE TABLE sales.plain (a INT, b STRING) USING parquet")
      spark.sql("CREATE TABLE sales.Parted (a CHAR(3), b DATE) USING parquet PARTITIONED BY (b) COMMENT 'of days'")
      spark.sql("CREATE VIEW sales.seen AS SELECT a FROM sales.plain")
      val own = new V2SessionCatalog(spark.sessionState.catalog)
      for {
        database <- Seq("sales", "SALES", "none", "parquet")
        name <- Seq("plain", "PLAIN", "parted", "seen", "none", "s3a://lake/path")
      } {
        val identifier = Identifier.of(Array(database), name)
        def outcome(load: => Any): Any = Try(load).fold(_.getMessage, identity)
        assert(outcome(MetastoreTables.load(own, identifier)) == outcome(own.loadTable(identifier)), identifier)
      }
    }
  }

  test("a view of Iceberg's format is refused by name, listed and dropped, and never read as one of Spark's") {
    LocalSpark.using(behindAnother) { (spark, _) =>
      spark.sql("CREATE DATABASE sales")
      spark.sql("CREATE TABLE sales.orders AS SELECT 1 AS id")
      spark.sql("CREATE VIEW sales.seen AS SELECT id FROM sales.orders")
      // As the metastore has a view that was created by Iceberg's catalog, for which a view of Spark's is the model.
      val metastore = spark.sessionState.catalog.externalCatalog
      val view = metastore.getTable("sales", "seen")
      val kept = view.properties.filterNot(_._1.startsWith(CatalogTable.VIEW_PREFIX))
      val mark = Map("table_type" -> "ICEBERG-VIEW", "metadata_location" -> "s3a://lake/warehouse/view.json")
      metastore.alterTable(
        view.copy(properties = kept ++ mark, viewText = Some("SELECT id FROM orders"))
      )
      spark.sql("USE sales")
      for (
        statement <- Seq(
          "SELECT * FROM sales.seen",
          "SELECT * FROM seen JOIN orders USING (id)",
          "DESCRIBE sales.seen",
          "SHOW CREATE TABLE sales.seen",
          "CREATE TABLE sales.copied AS SELECT * FROM sales.seen"
        )
      ) {
        val refused = intercept[AnalysisException](spark.sql(statement).collect())
        assert(refused.getMessage.contains("sales.seen is a view in Iceberg's format"), statement)
      }
      assert(spark.sql("SHOW TABLES IN sales").collect().map(_.getString(1)).toSet == Set("orders", "seen"))
      assert(spark.catalog.listTables("sales").collect().map(_.name).toSet == Set("orders", "seen"))
      spark.sql("CREATE OR REPLACE VIEW sales.seen AS SELECT id FROM sales.orders")
      assert(spark.sql("SELECT * FROM sales.seen").collect().map(_.getInt(0)).toSeq == Seq(1))
      metastore.alterTable(metastore.getTable("sales", "seen").copy(properties = mark))
      spark.sql("DROP VIEW sales.seen")
      assert(!metastore.tableExists("sales", "seen"))
    }
  }

  test("a table costs one question to the metastore") {
    LocalSpark.using() { (spark, _) =>
      spark.sql("CREATE TABLE plain (a INT) USING parquet")
      val asked = mutable.Buffer[String]()
      val metastore = spark.sessionState.catalog.externalCatalog
      val noted = Proxy
        .newProxyInstance(
          getClass.getClassLoader,
          Array[Class[_]](classOf[ExternalCatalog]),
          (_, method, arguments) => {
            asked += method.getName
            try method.invoke(metastore, arguments: _*)
            catch { case e: InvocationTargetException => throw e.getCause }
          }
        )
        .asInstanceOf[ExternalCatalog]
      val catalog = new SessionCatalog(noted)
      MetastoreTables.of(catalog, TableIdentifier("plain", Some("default")))
      assert(asked == Seq("getTable"))
      asked.clear()
      catalog.getTableMetadata(TableIdentifier("plain", Some("default")))
      assert(asked == Seq("databaseExists", "tableExists", "getTable"))
    }
  }
}
