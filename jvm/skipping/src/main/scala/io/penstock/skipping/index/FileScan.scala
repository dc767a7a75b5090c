package io.penstock.skipping.index

import java.io.{FileNotFoundException, IOException}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.parquet.HadoopReadOptions
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.metadata.BlockMetaData
import org.apache.parquet.hadoop.util.HadoopInputFile

/**
 * What files say of their columns: all that is asked of a file is read where it is opened, once.
 *
 * @param fromData
 *   whether value lists are worth reading data for; without, there are those only that dictionaries give
 */
private[index] class FileScan(root: Path, plan: Seq[PlannedColumn], fromData: Boolean, conf: Configuration) {

  import FileScan._

  private lazy val fs = root.getFileSystem(conf)

  def read(files: Iterator[ListedFile]): Iterator[Outcome] = Ahead.map(files, Threads) { file =>
    try {
      val entry = read(file)
      // What was read may be another version than was listed; asked afterwards, the file system tells.
      if (file.isVersionOf(fs.getFileStatus(pathOf(root, file)))) Known(entry) else Gone
    } catch {
      case _: FileNotFoundException => Gone
      case e @ (_: IOException | _: RuntimeException) => Unreadable(pathOf(root, file).toString, e.toString)
    }
  }

  private def read(file: ListedFile): FileEntry = {
    // The listing has what a reader would ask the store for.
    val status = new FileStatus(file.length, false, 0, 0, file.modificationMs, pathOf(root, file))
    val reader = ParquetFileReader.open(HadoopInputFile.fromStatus(status, conf), options())
    try {
      val footer = reader.getFileMetaData
      val isModern = Calendar.isModern(footer.getKeyValueMetaData)
      val fields = for {
        planned <- plan
        field <- ParquetField.of(footer.getSchema, planned.column)
      } yield planned -> field
      val values = distinct(reader, fields)
      val columns = fields.map { case (planned, field) =>
        val bounds = Bounds.of(reader.getRowGroups.asScala.toSeq.map(chunk(_, field)))
        val entry = values.get(field).fold(bounds)(recorded(bounds, planned.kinds, _))
        planned.column.name -> Calendar.guard(entry, planned.column.dataType, isModern)
      }
      val rows = reader.getRowGroups.asScala.iterator.map(_.getRowCount).sum
      FileEntry(file.directory, file.name, file.length, file.modificationMs, rows, columns.toMap)
    } finally reader.close()
  }

  /**
   * Of one file: they hold decompressors, which two threads must not share. Files of old writers have signed bounds of
   * strings only, which must not be taken for unsigned ones.
   */
  private def options() = HadoopReadOptions.builder(conf).useSignedStringMinMax(false).build()

  private def distinct(
      reader: ParquetFileReader,
      fields: Seq[(PlannedColumn, ParquetField)]
  ): Map[ParquetField, Iterable[Value]] = {
    def of(kind: Kind) = fields.collect { case (planned, field) if planned.kinds(kind) => field }
    val blooms = of(Kind.Bloom)
    val values = new ColumnValues(reader)
    values.distinct(of(Kind.Values).diff(blooms), MaxListed, fromData) ++ values.distinct(blooms, MaxInBloom, fromData)
  }

  private def chunk(group: BlockMetaData, field: ParquetField): Bounds.Chunk = {
    val statistics = field.chunk(group)
    val nulls = Option.when(statistics.getStatistics.isNumNullsSet)(statistics.getStatistics.getNumNulls)
    val bounds =
      if (!statistics.getStatistics.hasNonNullValue) None
      else
        for {
          low <- field.value(statistics.getStatistics.genericGetMin)
          high <- field.value(statistics.getStatistics.genericGetMax)
        } yield (low, high)
    Bounds.Chunk(group.getRowCount, nulls, bounds)
  }
}

private[index] object FileScan {

  /** Reading a footer is waiting for two or three answers of the store. */
  val Threads = 16

  /** A longer list takes more of the driver's memory than most files are worth. */
  val MaxListed = 1000

  /** 30 KB. */
  private val MaxInBloom = 20000
  private val FalsePositives = 0.01

  /** A list says all that a bloom filter would. */
  private def recorded(entry: ColumnEntry, kinds: Set[Kind], values: Iterable[Value]): ColumnEntry =
    if (kinds(Kind.Values) && values.size <= MaxListed && values.forall(Bounds.isShort))
      entry.copy(values = Some(values.toSeq.sorted))
    else if (kinds(Kind.Bloom)) {
      val bloom = Bloom.sized(values.size.toLong, FalsePositives)
      values.foreach(bloom.put)
      entry.copy(bloom = Some(bloom))
    } else entry

  sealed trait Outcome
  case class Known(entry: FileEntry) extends Outcome

  /** Its rows are always read, as those of any file that the index does not know. */
  case class Unreadable(path: String, why: String) extends Outcome

  /** Deleted or replaced since it was listed. */
  case object Gone extends Outcome

  def pathOf(root: Path, file: ListedFile): Path =
    new Path(if (file.directory.isEmpty) root else new Path(root, file.directory), file.name)
}
