package io.penstock.catalog

import java.util
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.iceberg.BaseMetastoreTableOperations
import org.apache.iceberg.catalog.Catalog
import org.apache.iceberg.spark.{RollbackStagedTable, SparkCatalog, SparkSessionCatalog}
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.penstock.MetastoreTables
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * Spark's own catalog, in which tables may have Iceberg's format too: `CREATE TABLE … USING iceberg` works without a
 * setting, and every other table stays what it was.
 *
 * The metastore says of a table whether it is one of Iceberg's. So other tables cost no question more than without this
 * class, and most of Iceberg's classes are loaded with the first table that needs them. Iceberg's own catalog of this
 * kind, whose statements work with subclasses of it alone, asks Iceberg first for every table, and keeps tables: a
 * session would not see what another engine has committed. This one asks the metastore for every statement: Iceberg
 * first, whose question is the cheaper one, where the table was one of Iceberg's before.
 */
final class SessionCatalog
    extends SparkSessionCatalog[TableCatalog with FunctionCatalog with SupportsNamespaces with ViewCatalog] {

  private var delegate: TableCatalog = _
  private var options = CaseInsensitiveStringMap.empty

  private lazy val iceberg: SparkCatalog = {
    val catalog = new SparkCatalog
    catalog.initialize(name, new CaseInsensitiveStringMap((SessionCatalog.Defaults ++ options.asScala).asJava))
    catalog
  }

  /** The tables that were Iceberg's when they were last loaded: whom to ask first, and nothing more. */
  private val loaded = ConcurrentHashMap.newKeySet[Identifier]()

  /** None: whatever of the parent would use it is overridden, or does without. */
  override protected def buildSparkCatalog(name: String, options: CaseInsensitiveStringMap): TableCatalog = {
    this.options = options
    null
  }

  override def setDelegateCatalog(spark: CatalogPlugin): Unit = {
    super.setDelegateCatalog(spark)
    delegate = spark.asInstanceOf[TableCatalog]
  }

  override def icebergCatalog(): Catalog = iceberg.icebergCatalog()

  override def capabilities(): util.Set[TableCatalogCapability] = delegate.capabilities()

  override def loadTable(identifier: Identifier): Table = identifier.namespace match {
    case Array(_) => again(identifier).getOrElse(first(identifier))
    case _ => catalogOf(identifier).fold(delegate.loadTable(identifier))(_.loadTable(identifier))
  }

  private def first(identifier: Identifier): Table = {
    val table = MetastoreTables.load(delegate, identifier)
    if (isIceberg(table)) {
      val found = iceberg.loadTable(identifier)
      loaded.add(identifier)
      found
    } else table
  }

  private def again(identifier: Identifier): Option[Table] =
    if (!loaded.contains(identifier)) None
    else
      try Some(iceberg.loadTable(identifier))
      catch {
        case _: NoSuchTableException =>
          loaded.remove(identifier)
          None
      }

  override def loadTable(identifier: Identifier, version: String): Table =
    catalogOf(identifier).fold(delegate.loadTable(identifier, version))(_.loadTable(identifier, version))

  override def loadTable(identifier: Identifier, microseconds: Long): Table =
    catalogOf(identifier).fold(delegate.loadTable(identifier, microseconds))(_.loadTable(identifier, microseconds))

  override def tableExists(identifier: Identifier): Boolean = identifier.namespace match {
    case Array(_) => delegate.tableExists(identifier)
    case _ => catalogOf(identifier).fold(delegate.tableExists(identifier))(_.tableExists(identifier))
  }

  override def invalidateTable(identifier: Identifier): Unit = delegate.invalidateTable(identifier)

  override def createTable(identifier: Identifier, info: TableInfo): Table =
    if (wantsIceberg(info)) iceberg.createTable(identifier, info)
    else delegate.createTable(identifier, info)

  override def stageCreate(identifier: Identifier, info: TableInfo): StagedTable =
    if (wantsIceberg(info)) iceberg.stageCreate(identifier, info)
    else new RollbackStagedTable(this, identifier, createTable(identifier, info))

  override def stageReplace(identifier: Identifier, info: TableInfo): StagedTable =
    if (wantsIceberg(info)) {
      refuseToReplaceAnother(identifier)
      iceberg.stageReplace(identifier, info)
    } else replaced(identifier, info)

  override def stageCreateOrReplace(identifier: Identifier, info: TableInfo): StagedTable =
    if (wantsIceberg(info)) {
      refuseToReplaceAnother(identifier)
      iceberg.stageCreateOrReplace(identifier, info)
    } else replaced(identifier, info)

  /** As Spark itself replaces a table of a source that cannot stage one. */
  private def replaced(identifier: Identifier, info: TableInfo): StagedTable = {
    dropTable(identifier)
    stageCreate(identifier, info)
  }

  /** Before a query runs whose result could not be committed. */
  private def refuseToReplaceAnother(identifier: Identifier): Unit =
    if (delegate.tableExists(identifier) && catalogOf(identifier).isEmpty)
      throw new UnsupportedOperationException(
        s"$identifier is not an Iceberg table, and cannot be replaced by one in one step: the table and its rows would " +
          s"be lost where the query fails. Drop it first (DROP TABLE $identifier), or choose another name"
      )

  override def alterTable(identifier: Identifier, changes: TableChange*): Table =
    catalogOf(identifier).fold(delegate.alterTable(identifier, changes: _*))(_.alterTable(identifier, changes: _*))

  override def dropTable(identifier: Identifier): Boolean =
    catalogOf(identifier).fold(delegate.dropTable(identifier))(_.dropTable(identifier))

  override def purgeTable(identifier: Identifier): Boolean =
    catalogOf(identifier).fold(delegate.purgeTable(identifier))(_.purgeTable(identifier))

  override def renameTable(from: Identifier, to: Identifier): Unit =
    catalogOf(from).fold(delegate.renameTable(from, to))(_.renameTable(from, to))

  /**
   * Iceberg's catalog where the table, or the one whose part is named (`sales.orders.snapshots`), is one of Iceberg's;
   * none also where there is no such table, which Spark's own catalog then says in its words.
   */
  private def catalogOf(identifier: Identifier): Option[SparkCatalog] = {
    val table = identifier.namespace match {
      case Array(database, table) => Identifier.of(Array(database), table)
      case _ => identifier
    }
    val found =
      try isIceberg(MetastoreTables.load(delegate, table))
      catch { case _: AnalysisException => false }
    Option.when(found)(iceberg)
  }

  /** Iceberg's own mark, `table_type`, is hidden by Spark's property of that name. */
  private def isIceberg(table: Table): Boolean =
    table.properties.get(TableCatalog.PROP_PROVIDER) == "hive" &&
      table.properties.containsKey(BaseMetastoreTableOperations.METADATA_LOCATION_PROP)

  private def wantsIceberg(info: TableInfo): Boolean =
    SessionCatalog.Format.equalsIgnoreCase(info.properties.get(TableCatalog.PROP_PROVIDER))
}

private object SessionCatalog {
  val Format = "iceberg"

  /**
   * For Iceberg's catalog over the metastore. A table's location has a name of its own: after a table was renamed, or
   * dropped with its files left, a new one of its name would lie among these files, and its maintenance would delete
   * them.
   */
  val HiveCatalogDefaults: Map[String, String] =
    Map("unique-table-location" -> "true", "io-impl" -> classOf[MetadataFileIO].getName)

  val Defaults: Map[String, String] = HiveCatalogDefaults ++ Map("type" -> "hive", "cache-enabled" -> "false")
}
