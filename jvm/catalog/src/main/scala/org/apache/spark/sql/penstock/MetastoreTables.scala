package org.apache.spark.sql.penstock

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.SessionCatalog
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.catalog.{Identifier, Table, TableCatalog, V1Table}
import org.apache.spark.sql.execution.datasources.v2.V2SessionCatalog

/**
 * Tables and views of the metastore as Spark's own session catalog loads them where another catalog stands before it,
 * with one question to the metastore. Spark asks three: for the database, for the table's existence, and for the table.
 *
 * The object lies in Spark's package because its kind of table is private to that.
 */
object MetastoreTables {

  /** Fails as Spark's catalog does, in its words. */
  def load(spark: TableCatalog, identifier: Identifier): Table = (spark, identifier.namespace) match {
    case (_: V2SessionCatalog, Array(database)) =>
      try of(SparkSession.active.sessionState.catalog, TableIdentifier(identifier.name, Some(database)))
      catch { case _: AnalysisException => spark.loadTable(identifier) }
    case _ => spark.loadTable(identifier)
  }

  private[penstock] def of(catalog: SessionCatalog, name: TableIdentifier): Table = {
    val qualified = catalog.qualifyIdentifier(name)
    val table = catalog.externalCatalog.getTable(qualified.database.get, qualified.table)
    V1Table(
      table.copy(
        identifier = table.identifier.copy(catalog = qualified.catalog),
        schema = CharVarcharUtils.replaceCharVarcharWithStringInSchema(table.schema)
      )
    )
  }
}
