package io.penstock.skipping.index

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.types.StructType

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

  private[index] def qualified(spark: SparkSession, path: Path): Path =
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
