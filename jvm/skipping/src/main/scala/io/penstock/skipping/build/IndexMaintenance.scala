package io.penstock.skipping.build

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.types.StructType

import io.penstock.skipping.index.{
  ColumnSummary,
  IndexCatalog,
  IndexStore,
  Kind,
  LeftOut,
  PlannedColumn,
  TableIndex,
  TableListing
}
import io.penstock.skipping.model.SkippingSettings

/**
 * The building, refreshing, showing and dropping of a table's index. Thread-safe; see [[IndexWriter]] for concurrent
 * changes.
 */
object IndexMaintenance {

  /**
   * Build an index of all of a table's files, in place of a former one. Without columns, it covers those that are worth
   * it; without kinds, it has those that each column is worth (bounds, for named columns). Throws an
   * `IllegalArgumentException` where a column cannot be indexed, and an `IOException` where the table cannot be listed
   * or the index cannot be written: the former one then stays.
   *
   * @param asked
   *   the conditions of past queries, evaluated only where columns have to be chosen
   */
  def build(
      spark: SparkSession,
      table: IndexedTable,
      columns: Option[Seq[String]] = None,
      kinds: Option[Set[Kind]] = None,
      asked: => Seq[Asked] = Nil
  ): Change = {
    val named = columns.map(ColumnChoice.requested(table, _, kinds.getOrElse(Set(Kind.MinMax))))
    val listed = TableListing.list(table.root, spark.sessionState.newHadoopConf())
    val choice = named.getOrElse {
      val (files, sampled) = Sampling.of(spark, table, listed, asked)
      val worth = new SkippingSettings(spark.sessionState.conf).maxFilesPerKey
      ColumnChoice.automatic(table, files, sampled, kinds, worth)
    }
    new IndexWriter(spark, table.root).build(choice.plan, choice.leftOut, listed)
  }

  /**
   * Refresh the index: only new and changed files are read. None where the table has no index. Throws an `IOException`
   * where its index is unusable and must be built again.
   */
  def refresh(spark: SparkSession, table: IndexedTable): Option[Change] =
    new IndexWriter(spark, table.root).refresh()

  /** Describe the index. None where the table has none; throws an `IOException` where it is unusable. */
  def show(spark: SparkSession, table: IndexedTable): Option[IndexDescription] = {
    val store = new IndexStore(table.root, spark.sessionState.newHadoopConf())
    store.read().map { manifest =>
      val columns = manifest.plan.map(_.column)
      val index = TableIndex.of(table.root.toString, columns, store.entries(manifest, columns))
      val described = manifest.plan.map(planned => DescribedColumn(planned, index.column(planned.column.name)))
      IndexDescription(described, manifest.leftOut)
    }
  }

  /** Drop the index, even an unusable one; false if the table has none. */
  def drop(spark: SparkSession, table: IndexedTable): Boolean = {
    val dropped = new IndexStore(table.root, spark.sessionState.newHadoopConf()).drop()
    IndexCatalog.forget(table.root)
    dropped
  }
}

/** The description of an index for users: every column of the table is among `columns` or `leftOut`. */
case class IndexDescription(columns: Seq[DescribedColumn], leftOut: Seq[LeftOut])

/** @param summary None where the index has no entries */
case class DescribedColumn(planned: PlannedColumn, summary: Option[ColumnSummary])

/**
 * A table that may have an index.
 *
 * @param name
 *   the name that the user gave
 * @param root
 *   the directory of its files, qualified
 * @param columns
 *   the columns in its files, without partition columns
 */
case class IndexedTable(name: String, root: Path, columns: StructType)

object IndexedTable {

  /**
   * The table of this name in SQL: a catalog's, or parquet.`path`. Throws an `IllegalArgumentException` where it cannot
   * have an index, and Spark's exception where there is no such table.
   */
  def of(spark: SparkSession, name: Seq[String]): IndexedTable = name match {
    case Seq(format, path) if format.equalsIgnoreCase("parquet") && !isTable(spark, name) => at(spark, path)
    case _ => of(spark, spark.sessionState.catalog.getTableMetadata(identifier(name)))
  }

  /** A table without a catalog, by the directory of its Parquet files. */
  def at(spark: SparkSession, path: String): IndexedTable = {
    val root = qualified(spark, new Path(path))
    spark.read.parquet(root.toString).queryExecution.analyzed.collectFirst {
      case LogicalRelation(relation: HadoopFsRelation, _, _, _, _) => relation
    } match {
      case Some(relation) => IndexedTable(path, root, without(relation.dataSchema, relation.partitionSchema))
      case None => throw refused(path, "its files are not read by Spark's own Parquet source")
    }
  }

  private def of(spark: SparkSession, table: CatalogTable): IndexedTable = {
    val name = table.identifier.unquotedString
    def serde = table.storage.serde.exists(_.toLowerCase.contains("parquet"))
    if (table.tableType == CatalogTableType.VIEW) throw refused(name, "it is a view")
    if (!table.provider.exists(_.equalsIgnoreCase("parquet")) && !serde)
      throw refused(name, "it is not a Parquet table")
    IndexedTable(name, qualified(spark, new Path(table.location)), table.dataSchema)
  }

  private[skipping] def qualified(spark: SparkSession, path: Path): Path =
    path.getFileSystem(spark.sessionState.newHadoopConf()).makeQualified(path)

  private def without(columns: StructType, others: StructType): StructType =
    StructType(columns.filterNot(column => others.exists(_.name.equalsIgnoreCase(column.name))))

  private def isTable(spark: SparkSession, name: Seq[String]): Boolean =
    spark.sessionState.catalog.tableExists(identifier(name))

  private def identifier(name: Seq[String]): TableIdentifier = name match {
    case Seq(table) => TableIdentifier(table)
    case Seq(database, table) => TableIdentifier(table, Some(database))
    case Seq(catalog, database, table) if catalog.equalsIgnoreCase("spark_catalog") =>
      TableIdentifier(table, Some(database))
    case _ => throw refused(name.mkString("."), "it is not in Spark's session catalog")
  }

  private def refused(name: String, why: String) = new IllegalArgumentException(
    s"$name cannot have a skipping index: $why. Name a Parquet table, or parquet.`PATH`"
  )
}
