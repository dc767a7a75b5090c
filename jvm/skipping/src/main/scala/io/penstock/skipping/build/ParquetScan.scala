package io.penstock.skipping.build

import java.io.{FileNotFoundException, IOException}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.parquet.HadoopReadOptions
import org.apache.parquet.column.ColumnReader
import org.apache.parquet.column.impl.ColumnReadStoreImpl
import org.apache.parquet.column.page.DictionaryPageReadStore
import org.apache.parquet.example.DummyRecordConverter
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.metadata.BlockMetaData
import org.apache.parquet.hadoop.util.HadoopInputFile
import org.apache.parquet.schema.MessageType

import io.penstock.skipping.index.{BloomFilter, ColumnEntry, FileEntry, Kind, ListedFile, PlannedColumn}
import io.penstock.skipping.model.{ParallelMap, Value}

/**
 * Reads the entries of Parquet files, each of which is opened once. Failures of a file are its outcome; `read` throws
 * none.
 *
 * @param fromData
 *   whether to read data for value lists and Bloom filters; otherwise only dictionaries provide them
 */
private[skipping] class ParquetScan(root: Path, plan: Seq[PlannedColumn], fromData: Boolean, conf: Configuration) {

  import ParquetScan._

  private lazy val fs = root.getFileSystem(conf)

  def read(files: Iterator[ListedFile]): Iterator[Outcome] = ParallelMap.map(files, Threads) { file =>
    try {
      val entry = read(file)
      // The file may have been replaced since it was listed, which its status after the reading shows.
      if (file.isVersionOf(fs.getFileStatus(pathOf(root, file)))) Known(entry) else Gone
    } catch {
      case _: FileNotFoundException => Gone
      case e @ (_: IOException | _: RuntimeException) => Unreadable(pathOf(root, file).toString, e.toString)
    }
  }

  private def read(file: ListedFile): FileEntry = {
    // The listing has the status that a reader would request from the store.
    val status = new FileStatus(file.length, false, 0, 0, file.modificationMs, pathOf(root, file))
    val reader = ParquetFileReader.open(HadoopInputFile.fromStatus(status, conf), options())
    try {
      val footer = reader.getFileMetaData
      val isModern = RebaseGuard.isModern(footer.getKeyValueMetaData)
      val fields = for {
        planned <- plan
        field <- ParquetColumn.of(footer.getSchema, planned.column)
      } yield planned -> field
      val values = distinct(reader, fields)
      val columns = fields.map { case (planned, field) =>
        val bounds = Bounds.of(reader.getRowGroups.asScala.toSeq.map(chunk(_, field)))
        val entry = values.get(field).fold(bounds)(recorded(bounds, planned.kinds, _))
        planned.column.name -> RebaseGuard.guard(entry, planned.column.dataType, isModern)
      }
      val rows = reader.getRowGroups.asScala.iterator.map(_.getRowCount).sum
      FileEntry(file.directory, file.name, file.length, file.modificationMs, rows, columns.toMap)
    } finally reader.close()
  }

  /**
   * Read options for one file: they hold decompressors, which two threads must not share. Files of old writers have
   * only signed bounds of strings, which must not be taken for unsigned ones.
   */
  private def options() = HadoopReadOptions.builder(conf).useSignedStringMinMax(false).build()

  private def distinct(
      reader: ParquetFileReader,
      fields: Seq[(PlannedColumn, ParquetColumn)]
  ): Map[ParquetColumn, Iterable[Value]] = {
    def of(kind: Kind) = fields.collect { case (planned, field) if planned.kinds(kind) => field }
    val blooms = of(Kind.Bloom)
    val values = new ColumnValues(reader)
    values.distinct(of(Kind.Values).diff(blooms), MaxListed, fromData) ++ values.distinct(blooms, MaxInBloom, fromData)
  }

  private def chunk(group: BlockMetaData, field: ParquetColumn): Bounds.Chunk = {
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

private[skipping] object ParquetScan {

  /** Parallel reads of a task, which mostly wait for the two or three answers of a footer. */
  val Threads = 16

  /** The longest value list: a longer one takes more of the driver's memory than most files are worth. */
  val MaxListed = 1000

  /** The most values in a Bloom filter: 30 KB. */
  private val MaxInBloom = 20000
  private val FalsePositives = 0.01

  /** Add the value list or, where it is too long, the Bloom filter: a list is as precise. */
  private def recorded(entry: ColumnEntry, kinds: Set[Kind], values: Iterable[Value]): ColumnEntry =
    if (kinds(Kind.Values) && values.size <= MaxListed && values.forall(Bounds.isShort))
      entry.copy(values = Some(values.toSeq.sorted))
    else if (kinds(Kind.Bloom)) {
      val bloom = BloomFilter.sized(values.size.toLong, FalsePositives)
      values.foreach(bloom.put)
      entry.copy(bloom = Some(bloom))
    } else entry

  sealed trait Outcome
  case class Known(entry: FileEntry) extends Outcome

  /** A file without an entry, whose rows every scan reads. */
  case class Unreadable(path: String, why: String) extends Outcome

  /** A file that was deleted or replaced since it was listed. */
  case object Gone extends Outcome

  def pathOf(root: Path, file: ListedFile): Path =
    new Path(if (file.directory.isEmpty) root else new Path(root, file.directory), file.name)
}

/**
 * The distinct values of an open file's columns: from dictionaries, where all of a column's pages refer to one, else
 * from the data.
 */
private[skipping] class ColumnValues(reader: ParquetFileReader) {

  import ColumnValues._

  /**
   * The distinct values of each field that has at most `limit`. A dictionary may hold values that no row has, and holds
   * all values of rows.
   *
   * @param fromData
   *   whether to read data where there is no dictionary
   */
  def distinct(fields: Seq[ParquetColumn], limit: Int, fromData: Boolean): Map[ParquetColumn, Iterable[Value]] = {
    val (encoded, plain) = fields.partition(field => reader.getRowGroups.asScala.forall(isInDictionary(_, field)))
    val found = encoded.map(field => field -> ofDictionaries(field, limit))
    (found ++ (if (fromData && plain.nonEmpty) ofData(plain, limit) else Seq.empty)).collect {
      case (field, Some(values)) => field -> values
    }.toMap
  }

  private def isInDictionary(group: BlockMetaData, field: ParquetColumn): Boolean = {
    val chunk = field.chunk(group)
    val pages = chunk.getEncodingStats
    // A chunk of nulls refers to no dictionary.
    chunk.getStatistics.isNumNullsSet && chunk.getStatistics.getNumNulls == group.getRowCount ||
    pages != null && pages.hasDictionaryEncodedPages && !pages.hasNonDictionaryEncodedPages
  }

  private def ofDictionaries(field: ParquetColumn, limit: Int): Option[Iterable[Value]] = {
    val distinct = new Distinct(field, limit)
    val groups = reader.getRowGroups.asScala.iterator
    while (!distinct.areTooMany && groups.hasNext) {
      val dictionaries: DictionaryPageReadStore = reader.getDictionaryReader(groups.next())
      try
        Option(dictionaries.readDictionaryPage(field.descriptor)).foreach { page =>
          val dictionary = page.getEncoding.initDictionary(field.descriptor, page)
          (0 to dictionary.getMaxId).iterator
            .takeWhile(_ => !distinct.areTooMany)
            .foreach(id => distinct.add(field.raw(dictionary, id)))
        }
      finally dictionaries.close()
    }
    distinct.result()
  }

  /** One pass over the file for all these fields, ended as soon as each has too many values. */
  private def ofData(fields: Seq[ParquetColumn], limit: Int): Seq[(ParquetColumn, Option[Iterable[Value]])] = {
    val schema =
      new MessageType("values", fields.map(_.descriptor.getPrimitiveType: org.apache.parquet.schema.Type).asJava)
    reader.setRequestedSchema(schema)
    val found = fields.map(field => field -> new Distinct(field, limit))
    def open = found.filterNot(_._2.areTooMany)
    var pages = reader.readNextRowGroup()
    while (pages != null) {
      val createdBy = reader.getFileMetaData.getCreatedBy
      val columns = new ColumnReadStoreImpl(pages, new DummyRecordConverter(schema).getRootConverter, schema, createdBy)
      for ((field, distinct) <- open) distinct.addAll(columns.getColumnReader(field.descriptor), pages.getRowCount)
      pages = if (open.isEmpty) null else reader.readNextRowGroup()
    }
    found.map { case (field, distinct) => field -> distinct.result() }
  }
}

private object ColumnValues {

  /** A set of Parquet's own values, which are equal when their content is. */
  private class Distinct(field: ParquetColumn, limit: Int) {
    private val values = new java.util.HashSet[Any]

    def areTooMany: Boolean = values.size > limit

    def add(raw: Any): Unit = {
      values.add(raw)
      ()
    }

    def addAll(column: ColumnReader, rows: Long): Unit = {
      val defined = field.descriptor.getMaxDefinitionLevel
      var left = rows
      while (left > 0 && !areTooMany) {
        if (column.getCurrentDefinitionLevel == defined) add(field.raw(column))
        column.consume()
        left -= 1
      }
    }

    /** The values; None where there are too many, or one that has no [[Value]]. */
    def result(): Option[Iterable[Value]] = {
      val known = values.asScala.flatMap(field.value)
      Option.when(!areTooMany && known.size == values.size)(known)
    }
  }
}
