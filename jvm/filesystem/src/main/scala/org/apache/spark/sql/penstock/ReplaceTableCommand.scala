package org.apache.spark.sql.penstock

import java.net.URI

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.hadoop.fs.s3a.S3AFileSystem
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType, CatalogUtils, SessionCatalog}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.errors.QueryCompilationErrors
import org.apache.spark.sql.execution.CommandExecutionMode
import org.apache.spark.sql.execution.command._
import org.apache.spark.sql.execution.datasources._
import org.apache.spark.sql.sources.BaseRelation
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{Row, SaveMode, SparkSession}
import org.apache.spark.util.Utils

import io.penstock.fs.commit.AtomicCommitProtocol

/** Has the table that `saveAsTable` overwrites replaced by [[ReplaceTableCommand]]. */
object ReplaceTableAsSelect extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case overwrite @ SaveAsV1TableCommand(_, SaveMode.Overwrite, _) => ReplaceTableCommand(overwrite)
    case _ => plan
  }
}

/**
 * Does what Spark's command does, in another order: it commits the new rows, whose commit deletes the old ones, and
 * then changes the table's entry in the catalog where it says something else than before (other columns, another
 * location).
 *
 * A query that fails has changed nothing. While the entry is changed, for some milliseconds, the catalog describes the
 * new rows by the old entry, or has none; an application that ends then has lost the entry, never the new rows.
 *
 * Tables that are views, that are not made of files, or that [[AtomicCommitProtocol]] does not write are replaced by
 * Spark's command.
 */
final private[penstock] case class ReplaceTableCommand(overwrite: SaveAsV1TableCommand) extends LeafRunnableCommand {

  override def innerChildren: Seq[LogicalPlan] = Seq(overwrite)

  override def run(session: SparkSession): Seq[Row] = {
    val catalog = session.sessionState.catalog
    val name = catalog.qualifyIdentifier(overwrite.tableDesc.identifier)
    val replacement =
      if (!catalog.tableExists(name)) None
      else
        for {
          create <- ReplaceTableCommand.analyzed(session, overwrite)
          replacement = new TableReplacement(session, catalog, name, create)
          if replacement.isPossible
        } yield replacement
    replacement.fold(overwrite.run(session)) { replacement =>
      replacement.run()
      Nil
    }
  }
}

private object ReplaceTableCommand {

  /** Fails as Spark's command would, but before anything has been dropped. */
  def analyzed(session: SparkSession, overwrite: SaveAsV1TableCommand): Option[CreateDataSourceTableAsSelectCommand] = {
    val create = CreateTable(overwrite.tableDesc, SaveMode.Overwrite, Some(overwrite.query))
    session.sessionState.executePlan(create, CommandExecutionMode.SKIP).analyzed match {
      case command: CreateDataSourceTableAsSelectCommand => Some(command)
      case _ => None
    }
  }
}

/** @param name of the table, with its database */
final private class TableReplacement(
    session: SparkSession,
    catalog: SessionCatalog,
    name: TableIdentifier,
    create: CreateDataSourceTableAsSelectCommand
) {
  private val old = catalog.getTableMetadata(name)
  private val described = create.table.copy(identifier = name)

  private val location: URI =
    if (described.tableType == CatalogTableType.EXTERNAL) described.location else catalog.defaultTablePath(name)

  def isPossible: Boolean = old.tableType != CatalogTableType.VIEW && isOfFiles && isCommitted

  private def isOfFiles: Boolean = described.provider.exists { provider =>
    isSubclass(classOf[FileFormat], DataSource(session, className = provider).providingClass)
  }

  private def isCommitted: Boolean =
    isSubclass(classOf[AtomicCommitProtocol], Utils.classForName(session.sessionState.conf.fileCommitProtocolClass)) &&
      fileSystem(location).isInstanceOf[S3AFileSystem]

  /** Not of a class that cannot be found: Spark's command says so. */
  private def isSubclass(parent: Class[_], of: => Class[_]): Boolean =
    try parent.isAssignableFrom(of)
    catch { case NonFatal(_) => false }

  private def fileSystem(location: URI) = new Path(location).getFileSystem(session.sessionState.newHadoopConf())

  def run(): Unit = {
    if (reads(location)) throw QueryCompilationErrors.cannotOverwriteTableThatIsBeingReadFromError(name)
    if (isTheSame(create.query.schema)) write(Some(old))
    else {
      if (location != old.location) catalog.validateTableLocation(described)
      replaceEntry(write(None))
    }
    catalog.refreshTable(name)
  }

  private def reads(location: URI): Boolean = create.query.collectLeaves().exists {
    case LogicalRelation(files: HadoopFsRelation, _, _, _, _) =>
      files.location.rootPaths.exists(path => TableReplacement.isOneOf(path.toUri, location))
    case _ => false
  }

  /** Whether the catalog has nothing to learn but rows and partitions. */
  private def isTheSame(columns: StructType): Boolean =
    old.tableType == described.tableType && old.location == location &&
      old.provider.map(_.toLowerCase) == described.provider.map(_.toLowerCase) &&
      old.schema == columns.asNullable && old.partitionColumnNames == described.partitionColumnNames &&
      old.bucketSpec == described.bucketSpec && old.comment == described.comment &&
      TableReplacement.options(old) == TableReplacement.options(described) && old.properties == described.properties

  private def write(entry: Option[CatalogTable]): BaseRelation =
    DataSource(
      session,
      className = described.provider.get,
      partitionColumns = described.partitionColumnNames,
      bucketSpec = described.bucketSpec,
      // Of a table that is replaced no partition stays.
      options = described.storage.properties +
        ("path" -> CatalogUtils.URIToString(location)) + ("partitionOverwriteMode" -> "static"),
      catalogTable = entry
    ).writeAndRead(SaveMode.Overwrite, create.query, create.outputColumnNames)

  private def replaceEntry(written: BaseRelation): Unit = {
    val entry = described.copy(
      storage = described.storage.copy(locationUri = Some(location)),
      schema = written.schema
    )
    // What is dropped with a managed table is its files; at the same place these are the new ones by now.
    if (old.tableType == CatalogTableType.MANAGED) catalog.alterTable(old.copy(tableType = CatalogTableType.EXTERNAL))
    catalog.dropTable(name, ignoreIfNotExists = true, purge = false)
    try catalog.createTable(entry, ignoreIfExists = false, validateLocation = false)
    catch { case NonFatal(failure) => throw new EntryLost(name, location, failure) }
    if (entry.partitionColumnNames.nonEmpty && session.sessionState.conf.manageFilesourcePartitions)
      RepairTableCommand(name, enableAddPartitions = true, enableDropPartitions = false, "MSCK REPAIR TABLE").run(
        session
      )
    CommandUtils.updateTableStats(session.asInstanceOf[org.apache.spark.sql.classic.SparkSession], entry)
    if (old.tableType == CatalogTableType.MANAGED && old.location != location) {
      fileSystem(old.location).delete(new Path(old.location), true)
      ()
    }
  }
}

private object TableReplacement {

  /** The catalog keeps a location among the options, too. */
  private def options(table: CatalogTable): Map[String, String] =
    table.storage.properties.filterNot { case (name, _) => name.equalsIgnoreCase("path") }

  private def isOneOf(path: URI, directory: URI): Boolean = {
    val base = directory.toString.stripSuffix("/")
    path.toString.stripSuffix("/") == base || path.toString.startsWith(base + "/")
  }
}

/** The catalog took the old entry of a replaced table away and refused the new one. */
final class EntryLost(table: TableIdentifier, location: URI, cause: Throwable)
    extends IllegalStateException(
      s"The new rows of $table are written, but the catalog refused its new entry and has none now " +
        s"(${cause.getMessage}). No row is lost: CREATE TABLE ${table.quotedString} USING ... LOCATION '$location' " +
        "brings the table back, and so does the same write again.",
      cause
    )
