package io.penstock.fs.scan

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.StructType

/**
 * Spark's Parquet, whose readers tell the file system what the driver's listing told of each file. Without it every
 * file that is opened is asked for once more: `HadoopInputFile.fromPath` begins with `getFileStatus`.
 */
final class ListedParquet extends ParquetFileFormat {

  override def buildReaderWithPartitionValues(
      session: SparkSession,
      dataSchema: StructType,
      partitionSchema: StructType,
      requiredSchema: StructType,
      filters: Seq[Filter],
      options: Map[String, String],
      conf: Configuration
  ): PartitionedFile => Iterator[InternalRow] = ListedParquet.told(
    super.buildReaderWithPartitionValues(
      session,
      dataSchema,
      partitionSchema,
      requiredSchema,
      filters,
      options,
      conf
    )
  )
}

private object ListedParquet {

  /** A file is opened, and its footer read, before its rows are asked for. */
  def told(read: PartitionedFile => Iterator[InternalRow]): PartitionedFile => Iterator[InternalRow] = file =>
    // Whoever makes such a file by hand may leave these out.
    if (file.fileSize <= 0 || file.modificationTime <= 0) read(file)
    else ScannedFile.opening(ScannedFile(file.toPath, file.fileSize, file.modificationTime))(read(file))
}
