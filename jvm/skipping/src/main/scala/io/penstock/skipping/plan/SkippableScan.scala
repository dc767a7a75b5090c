package io.penstock.skipping.plan

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.execution.FileSourceScanExec
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.datasources.{CatalogFileIndex, FileIndex, HadoopFsRelation, InMemoryFileIndex}

import io.penstock.skipping.index.TableIndex
import io.penstock.skipping.join.DynamicFilter

/** A scan, as Spark planned it, whose table has an index. */
case class SkippableScan(scan: FileSourceScanExec, index: TableIndex) {

  /** The indexed column whose files can be skipped by keys that this expression is compared with. */
  def keyColumn(expression: Expression): Option[KeyColumn] =
    for {
      attribute <- DynamicFilter.column(expression)
      // The scan's own name of it: what refers to a column may spell it otherwise.
      own <- scan.output.find(_.exprId == attribute.exprId)
      column <- index.columns.find(_.name == own.name)
      key = KeyColumn(column.name, column.dataType, expression.dataType)
      _ <- key.encoding
    } yield key
}

object SkippableScan {

  def of(scan: FileSourceScanExec, find: HadoopFsRelation => Option[TableIndex]): Option[SkippableScan] =
    Option(scan.relation)
      .filter(relation => scan.stream.isEmpty && isPlainParquet(relation) && isListedBySpark(relation.location))
      .flatMap(find)
      .map(SkippableScan(scan, _))

  // A subclass may read files otherwise: with deleted rows left out, or columns under other names. Penstock's file system
  // has one that does not; by its name, since each of the two is there without the other.
  private val PlainParquet = Set(classOf[ParquetFileFormat].getName, "io.penstock.fs.scan.ListedParquet")

  private def isPlainParquet(relation: HadoopFsRelation): Boolean =
    PlainParquet(relation.fileFormat.getClass.getName)

  /** Other formats' own indexes (of files that count at some version) are left alone. */
  private def isListedBySpark(location: FileIndex): Boolean = location match {
    case _: InMemoryFileIndex | _: CatalogFileIndex => true
    case _ => false
  }
}
