package io.penstock.skipping.plan

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.execution.datasources.{FileIndex, PartitionDirectory}
import org.apache.spark.sql.types.StructType

/** A scan's file index without the files that cannot match. Equal to another one where the indexes inside are. */
class SkippingFileIndex(val inner: FileIndex, val skipping: ScanSkipping) extends FileIndex {

  override def listFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] =
    skipping.select(inner.listFiles(partitionFilters, dataFilters), dataFilters)

  override def rootPaths: Seq[Path] = inner.rootPaths
  override def inputFiles: Array[String] = inner.inputFiles
  override def refresh(): Unit = inner.refresh()
  override def sizeInBytes: Long = inner.sizeInBytes
  override def partitionSchema: StructType = inner.partitionSchema
  override def metadataOpsTimeNs: Option[Long] = inner.metadataOpsTimeNs

  override def equals(other: Any): Boolean = other match {
    case that: SkippingFileIndex => inner == that.inner
    case _ => false
  }

  override def hashCode(): Int = inner.hashCode
}
