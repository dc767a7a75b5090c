package io.penstock.skipping.index

import java.io.{FileNotFoundException, IOException}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.parquet.HadoopReadOptions
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.metadata.BlockMetaData
import org.apache.parquet.hadoop.util.HadoopInputFile

/** What files say of their columns: all that is asked of a file is read where it is opened, once. */
private[index] class FileScan(root: Path, plan: Seq[PlannedColumn], conf: Configuration) {

  import FileScan._

  // Files of old writers have signed bounds of strings only, which must not be taken for unsigned ones.
  private val options = HadoopReadOptions.builder(conf).useSignedStringMinMax(false).build()

  def read(files: Iterator[ListedFile]): Iterator[Outcome] = Ahead.map(files, Threads) { file =>
    try Known(read(file))
    catch {
      case _: FileNotFoundException => Gone
      case e @ (_: IOException | _: RuntimeException) => Unreadable(pathOf(root, file).toString, e.toString)
    }
  }

  private def read(file: ListedFile): FileEntry = {
    // The listing has what a reader would ask the store for.
    val status = new FileStatus(file.length, false, 0, 0, file.modificationMs, pathOf(root, file))
    val reader = ParquetFileReader.open(HadoopInputFile.fromStatus(status, conf), options)
    try {
      val footer = reader.getFileMetaData
      val isModern = Calendar.isModern(footer.getKeyValueMetaData)
      val columns = for {
        planned <- plan
        field <- ParquetField.of(footer.getSchema, planned.column)
      } yield planned.column.name -> Calendar.guard(entry(reader, field), planned.column.dataType, isModern)
      val rows = reader.getRowGroups.asScala.iterator.map(_.getRowCount).sum
      FileEntry(file.directory, file.name, file.length, file.modificationMs, rows, columns.toMap)
    } finally reader.close()
  }

  private def entry(reader: ParquetFileReader, field: ParquetField): ColumnEntry =
    Bounds.of(reader.getRowGroups.asScala.toSeq.map(group => chunk(group, field)))

  private def chunk(group: BlockMetaData, field: ParquetField): Bounds.Chunk = {
    val column = group.getColumns.asScala
      .find(_.getPath.toArray.sameElements(field.descriptor.getPath))
      .getOrElse(throw new IOException(s"a row group lacks the column ${field.descriptor.getPath.head}"))
    val nulls = Option.when(column.getStatistics.isNumNullsSet)(column.getStatistics.getNumNulls)
    val bounds =
      if (!column.getStatistics.hasNonNullValue) None
      else
        for {
          low <- field.value(column.getStatistics.genericGetMin)
          high <- field.value(column.getStatistics.genericGetMax)
        } yield (low, high)
    Bounds.Chunk(group.getRowCount, nulls, bounds)
  }
}

private[index] object FileScan {

  /** Reading a footer is waiting for two or three answers of the store. */
  val Threads = 16

  sealed trait Outcome
  case class Known(entry: FileEntry) extends Outcome

  /** Its rows are always read, as those of any file that the index does not know. */
  case class Unreadable(path: String, why: String) extends Outcome

  /** Deleted since it was listed. */
  case object Gone extends Outcome

  def pathOf(root: Path, file: ListedFile): Path =
    new Path(if (file.directory.isEmpty) root else new Path(root, file.directory), file.name)
}
