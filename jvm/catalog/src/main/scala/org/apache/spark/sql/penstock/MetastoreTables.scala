package org.apache.spark.sql.penstock

import org.apache.iceberg.BaseMetastoreTableOperations
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

  /** Iceberg's own constant is not public (`HiveOperationsBase.ICEBERG_VIEW_TYPE_VALUE`). */
  private val IcebergView = "iceberg-view"

  /** Fails as Spark's catalog does, in its words, and for a view in Iceberg's format. */
  def load(spark: TableCatalog, identifier: Identifier): Table = {
    val found = (spark, identifier.namespace) match {
      case (_: V2SessionCatalog, Array(database)) =>
        try of(SparkSession.active.sessionState.catalog, TableIdentifier(identifier.name, Some(database)))
        catch { case _: AnalysisException => spark.loadTable(identifier) }
      case _ => spark.loadTable(identifier)
    }
    found match {
      case table: V1Table if isIcebergView(table.v1Table.properties) => throw new IcebergViewRefused(identifier)
      case _ => found
    }
  }

  /** Whether these are the metastore's properties of a view that a client of Iceberg's REST catalog created. */
  def isIcebergView(properties: Map[String, String]): Boolean =
    properties
      .get(BaseMetastoreTableOperations.TABLE_TYPE_PROP)
      .exists(IcebergView.equalsIgnoreCase)

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

/**
 * The metastore has of such a view one of its texts, in any engine's dialect, and not the namespace in which its names
 * are resolved: Spark would take it for a view of Hive's and read the tables of these names in the reader's database.
 *
 * The condition is the one of a kind of table that Spark does not read, with which it still lists the table.
 */
final private class IcebergViewRefused(identifier: Identifier)
    extends AnalysisException(
      message = s"$identifier is a view in Iceberg's format, which Spark does not read: its text is another engine's, " +
        s"and names tables of the namespace in which that engine was. Read it with a client of Iceberg's REST catalog, " +
        "or make a view of Spark's beside it: CREATE VIEW … AS SELECT …",
      errorClass = Some("UNSUPPORTED_FEATURE.HIVE_TABLE_TYPE"),
      messageParameters = Map("tableName" -> identifier.toString, "tableType" -> "ICEBERG VIEW")
    )
