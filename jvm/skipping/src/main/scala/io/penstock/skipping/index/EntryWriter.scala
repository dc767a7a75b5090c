package io.penstock.skipping.index

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.parquet.hadoop.ParquetWriter
import org.apache.parquet.hadoop.api.WriteSupport
import org.apache.parquet.hadoop.metadata.CompressionCodecName
import org.apache.parquet.hadoop.util.HadoopOutputFile
import org.apache.parquet.io.api.{Binary, RecordConsumer}

/** Writes entries as the rows of a new Parquet file. */
private[index] object EntryWriter {

  /** Returns how many they were. Ends with the file written whole, or with an exception. */
  def write(entries: Iterator[FileEntry], columns: Seq[IndexedColumn], file: Path, conf: Configuration): Long = {
    var count = 0L
    val writer = new Builder(HadoopOutputFile.fromPath(file, conf), columns)
      .withConf(conf)
      .withCompressionCodec(CompressionCodecName.ZSTD)
      .build()
    try
      entries.foreach { entry =>
        writer.write(entry)
        count += 1
      }
    finally writer.close()
    count
  }

  private class Builder(file: HadoopOutputFile, columns: Seq[IndexedColumn])
      extends ParquetWriter.Builder[FileEntry, Builder](file) {
    override def self(): Builder = this
    override def getWriteSupport(conf: Configuration): WriteSupport[FileEntry] = new EntryWriter(columns)
  }
}

private class EntryWriter(columns: Seq[IndexedColumn]) extends WriteSupport[FileEntry] {

  import EntrySchema._

  private val schema = EntrySchema.of(columns)
  private var to: RecordConsumer = _

  override def init(conf: Configuration): WriteSupport.WriteContext =
    new WriteSupport.WriteContext(schema, new java.util.HashMap[String, String])

  override def prepareForWrite(consumer: RecordConsumer): Unit = to = consumer

  override def write(entry: FileEntry): Unit = {
    to.startMessage()
    field(Directory, 0)(to.addBinary(Binary.fromString(entry.directory)))
    field(Name, 1)(to.addBinary(Binary.fromString(entry.name)))
    field(Length, 2)(to.addLong(entry.length))
    field(Modified, 3)(to.addLong(entry.modificationMs))
    field(Rows, 4)(to.addLong(entry.rows))
    if (columns.nonEmpty) field(Columns, 5) {
      group {
        for ((column, index) <- columns.zipWithIndex; known <- entry.columns.get(column.name))
          field(column.name, index)(group(write(known)))
      }
    }
    to.endMessage()
  }

  private def write(column: ColumnEntry): Unit = {
    column.nulls.foreach(nulls => field(Nulls, 0)(to.addLong(nulls)))
    column.minimum.foreach(value => field(Minimum, 1)(add(value)))
    column.maximum.foreach(value => field(Maximum, 2)(add(value)))
    column.values.foreach { values =>
      field(Values, 3)(group {
        if (values.nonEmpty) field("list", 0)(values.foreach(value => group(field("element", 0)(add(value)))))
      })
    }
    column.bloom.foreach(bloom => field(Bloom, 4)(to.addBinary(Binary.fromConstantByteArray(bloom.toBytes))))
  }

  private def add(value: Value): Unit = value match {
    case Value.Integral(number) => to.addLong(number)
    case Value.Bytes(bytes) => to.addBinary(Binary.fromConstantByteArray(bytes))
  }

  private def field(name: String, index: Int)(content: => Unit): Unit = {
    to.startField(name, index)
    content
    to.endField(name, index)
  }

  private def group(content: => Unit): Unit = {
    to.startGroup()
    content
    to.endGroup()
  }
}
