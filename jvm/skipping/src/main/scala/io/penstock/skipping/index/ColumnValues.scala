package io.penstock.skipping.index

import scala.jdk.CollectionConverters._

import org.apache.parquet.column.ColumnReader
import org.apache.parquet.column.impl.ColumnReadStoreImpl
import org.apache.parquet.column.page.DictionaryPageReadStore
import org.apache.parquet.example.DummyRecordConverter
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.metadata.BlockMetaData
import org.apache.parquet.schema.MessageType

/**
 * The distinct values of an open file's columns: from dictionaries, where all of a column's pages refer to one, else
 * from the data.
 */
private[index] class ColumnValues(reader: ParquetFileReader) {

  import ColumnValues._

  /**
   * Of each field that has no more than `limit`. A dictionary may hold values that no row has; every value that a row
   * has is there.
   *
   * @param fromData
   *   whether to read data, too, for want of dictionaries
   */
  def distinct(fields: Seq[ParquetField], limit: Int, fromData: Boolean): Map[ParquetField, Iterable[Value]] = {
    val (encoded, plain) = fields.partition(field => reader.getRowGroups.asScala.forall(isInDictionary(_, field)))
    val found = encoded.map(field => field -> ofDictionaries(field, limit))
    (found ++ (if (fromData && plain.nonEmpty) ofData(plain, limit) else Seq.empty)).collect {
      case (field, Some(values)) => field -> values
    }.toMap
  }

  private def isInDictionary(group: BlockMetaData, field: ParquetField): Boolean = {
    val chunk = field.chunk(group)
    val pages = chunk.getEncodingStats
    // All nulls: there is nothing to refer to a dictionary.
    chunk.getStatistics.isNumNullsSet && chunk.getStatistics.getNumNulls == group.getRowCount ||
    pages != null && pages.hasDictionaryEncodedPages && !pages.hasNonDictionaryEncodedPages
  }

  private def ofDictionaries(field: ParquetField, limit: Int): Option[Iterable[Value]] = {
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
  private def ofData(fields: Seq[ParquetField], limit: Int): Seq[(ParquetField, Option[Iterable[Value]])] = {
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

  /** Counts Parquet's own values, which are equal when their content is. */
  private class Distinct(field: ParquetField, limit: Int) {
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

    /** None where they are too many, or one of them is none that can be told. */
    def result(): Option[Iterable[Value]] = {
      val known = values.asScala.flatMap(field.value)
      Option.when(!areTooMany && known.size == values.size)(known)
    }
  }
}
