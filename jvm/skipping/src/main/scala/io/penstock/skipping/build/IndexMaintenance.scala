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

/** Building, refreshing, showing and dropping the index of a table. */
object IndexMaintenance {

  /**
   * An index of all of a table's files, in place of the one there was. Without columns, those are chosen that are worth
   * it; without kinds, what each is worth (of named columns, their bounds). Throws an `IllegalArgumentException` where
   * a column cannot be indexed, and an `IOException` where the table cannot be listed or the index not be written: the
   * former one then stands.
   *
   * @param asked
   *   what queries asked of the table before; looked at where columns are to be chosen
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
   * The index brought up to date: only files that are new or were changed are read. None: the table has no index.
   * Throws an `IOException` where it has one that cannot be used: build it anew.
   */
  def refresh(spark: SparkSession, table: IndexedTable): Option[Change] =
    new IndexWriter(spark, table.root).refresh()

  /** None: the table has no index. Throws an `IOException` where it has one that cannot be used. */
  def show(spark: SparkSession, table: IndexedTable): Option[IndexDescription] = {
    val store = new IndexStore(table.root, spark.sessionState.newHadoopConf())
    store.read().map { manifest =>
      val columns = manifest.plan.map(_.column)
      val index = TableIndex.of(table.root.toString, columns, store.entries(manifest, columns))
      val described = manifest.plan.map(planned => DescribedColumn(planned, index.column(planned.column.name)))
      IndexDescription(described, manifest.leftOut)
    }
  }

  /** Also an index that cannot be used. False: the table has none. */
  def drop(spark: SparkSession, table: IndexedTable): Boolean = {
    val dropped = new IndexStore(table.root, spark.sessionState.newHadoopConf()).drop()
    IndexCatalog.forget(table.root)
    dropped
  }
}

/** An index as people are told of it: every column of the table is among `columns` or `leftOut`. */
case class IndexDescription(columns: Seq[DescribedColumn], leftOut: Seq[LeftOut])

/** @param summary None where not a single file is known */
case class DescribedColumn(planned: PlannedColumn, summary: Option[ColumnSummary])

/**
 * A table that can have an index.
 *
 * @param name
 *   as its user calls it
 * @param root
 *   the directory of its files, qualified
 * @param columns
 *   those that its files hold; it may have others, by which it is partitioned
 */
case class IndexedTable(name: String, root: Path, columns: StructType)

object IndexedTable {

  /**
   * The table that SQL calls so: a catalog's, or parquet.`path`. Throws an `IllegalArgumentException` where it cannot
   * have an index, and what Spark throws where there is no such table.
   */
  def of(spark: SparkSession, name: Seq[String]): IndexedTable = name match {
    case Seq(format, path) if format.equalsIgnoreCase("parquet") && !isTable(spark, name) => at(spark, path)
    case _ => of(spark, spark.sessionState.catalog.getTableMetadata(identifier(name)))
  }

  /** A table without a catalog: the directory its Parquet files are in. */
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
