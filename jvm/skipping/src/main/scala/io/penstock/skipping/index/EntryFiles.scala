package io.penstock.skipping.index

import java.io.IOException

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.parquet.column.Dictionary
import org.apache.parquet.hadoop.api.{InitContext, ReadSupport, WriteSupport}
import org.apache.parquet.hadoop.metadata.CompressionCodecName
import org.apache.parquet.hadoop.util.{HadoopInputFile, HadoopOutputFile}
import org.apache.parquet.hadoop.{ParquetReader, ParquetWriter}
import org.apache.parquet.io.InputFile
import org.apache.parquet.io.api._
import org.apache.parquet.schema.LogicalTypeAnnotation.{TimeUnit, stringType, timestampType}
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName.{BINARY, INT64}
import org.apache.parquet.schema.Type.Repetition.{OPTIONAL, REQUIRED}
import org.apache.parquet.schema.{GroupType, MessageType, Type, Types}

import io.penstock.skipping.model.{Domain, IndexedColumn, Value}

/**
 * The Parquet schema of the index's files: a row for each [[FileEntry]], and a group for each column below `columns`.
 * Every Parquet reader can read it.
 */
private[skipping] object EntrySchema {

  val Directory = "directory"
  val Name = "name"
  val Length = "length"
  val Modified = "modified"
  val Rows = "rows"
  val Columns = "columns"

  val Nulls = "nulls"
  val Minimum = "minimum"
  val Maximum = "maximum"
  val Values = "values"
  val Bloom = "bloom"

  private val identity: Seq[Type] = Seq(
    Types.primitive(BINARY, REQUIRED).as(stringType()).named(Directory),
    Types.primitive(BINARY, REQUIRED).as(stringType()).named(Name),
    Types.primitive(INT64, REQUIRED).named(Length),
    Types.primitive(INT64, REQUIRED).as(timestampType(true, TimeUnit.MILLIS)).named(Modified),
    Types.primitive(INT64, REQUIRED).named(Rows)
  )

  def of(columns: Seq[IndexedColumn]): MessageType = {
    val groups = columns.map(column => group(column): Type)
    // Parquet has no empty groups.
    val all = if (groups.isEmpty) identity else identity :+ new GroupType(REQUIRED, Columns, groups.asJava)
    new MessageType("skipping_index", all.asJava)
  }

  private def group(column: IndexedColumn): GroupType = {
    val value = column.domain match {
      case Domain.Integral => INT64
      case Domain.Bytes => BINARY
    }
    Types
      .optionalGroup()
      .addField(Types.primitive(INT64, OPTIONAL).named(Nulls))
      .addField(Types.primitive(value, OPTIONAL).named(Minimum))
      .addField(Types.primitive(value, OPTIONAL).named(Maximum))
      .addField(Types.optionalList().element(Types.primitive(value, REQUIRED).named("element")).named(Values))
      .addField(Types.primitive(BINARY, OPTIONAL).named(Bloom))
      .named(column.name)
  }
}

/** Writes entries as the rows of a new Parquet file. */
private[skipping] object EntryWriter {

  /** Write the entries and return their number. Throws an `IOException` where the file is not whole. */
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

/** Reads files of [[EntryWriter]]. */
private[skipping] object EntryReader {

  /**
   * The entries of a part with these columns, possibly none. Throws an [[IndexDamage]] where the part differs from the
   * manifest.
   */
  def read(file: Path, part: Manifest.Part, columns: Seq[IndexedColumn], conf: Configuration): Vector[FileEntry] = {
    def damage(what: String, cause: Throwable = null) =
      new IndexDamage(s"has a part, ${part.name}, that $what: build it anew to use one", cause)
    try {
      val input = HadoopInputFile.fromPath(file, conf)
      if (input.getLength != part.bytes) throw damage(s"has ${input.getLength} bytes instead of ${part.bytes}")
      // A wrong bound would hide files, and Parquet does not verify the checksums of pages by default.
      val reader = new Builder(input, columns).withConf(conf).usePageChecksumVerification().build()
      try {
        val entries = Iterator.continually(reader.read()).takeWhile(_ != null).toVector
        if (entries.size != part.entries) throw damage(s"has ${entries.size} entries instead of ${part.entries}")
        entries
      } finally reader.close()
    } catch {
      case e: IndexDamage => throw e
      case e @ (_: IOException | _: RuntimeException) => throw damage("cannot be read", e)
    }
  }

  private class Builder(file: InputFile, columns: Seq[IndexedColumn]) extends ParquetReader.Builder[FileEntry](file) {
    override def getReadSupport(): ReadSupport[FileEntry] = new EntryReadSupport(columns)
  }
}

private class EntryReadSupport(columns: Seq[IndexedColumn]) extends ReadSupport[FileEntry] {

  override def init(context: InitContext): ReadSupport.ReadContext = {
    val wanted = EntrySchema.of(columns)
    // Throws where the file's schema differs.
    context.getFileSchema.checkContains(wanted)
    new ReadSupport.ReadContext(wanted)
  }

  override def prepareForRead(
      conf: Configuration,
      metadata: java.util.Map[String, String],
      schema: MessageType,
      context: ReadSupport.ReadContext
  ): RecordMaterializer[FileEntry] = new EntryMaterializer(columns)
}

private class EntryMaterializer(columns: Seq[IndexedColumn]) extends RecordMaterializer[FileEntry] {

  private val directory, name = new Text
  private val length, modified, rows = new Whole
  private val parts = columns.map(_ => new ColumnGroup).toArray

  private val root = new Fields(
    Seq(directory, name, length, modified, rows) ++ Option.when(parts.nonEmpty)(new Fields(parts.toSeq))
  )

  override def getRootConverter: GroupConverter = root

  override def getCurrentRecord: FileEntry = {
    val known = columns.iterator.zip(parts.iterator).flatMap { case (column, part) =>
      part.take().map(column.name -> _)
    }
    FileEntry(directory.value, name.value, length.value, modified.value, rows.value, known.toMap)
  }

  /** Decodes each string of a dictionary once, so that memory holds each directory's name once. */
  private class Text extends PrimitiveConverter {
    var value: String = _
    private var decoded: Array[String] = _
    override def hasDictionarySupport: Boolean = true
    override def setDictionary(dictionary: Dictionary): Unit =
      decoded = Array.tabulate(dictionary.getMaxId + 1)(id => dictionary.decodeToBinary(id).toStringUsingUTF8)
    override def addValueFromDictionary(id: Int): Unit = value = decoded(id)
    override def addBinary(binary: Binary): Unit = value = binary.toStringUsingUTF8
  }

  private class Whole extends PrimitiveConverter {
    var value: Long = 0
    override def addLong(number: Long): Unit = value = number
  }

  private class Each(add: Value => Unit) extends PrimitiveConverter {
    override def addLong(number: Long): Unit = add(Value.Integral(number))
    override def addBinary(binary: Binary): Unit = add(Value.Bytes(binary.getBytes))
  }

  private class Fields(converters: Seq[Converter]) extends GroupConverter {
    private val fields = converters.toArray
    override def getConverter(index: Int): Converter = fields(index)
    override def start(): Unit = ()
    override def end(): Unit = ()
  }

  private class ColumnGroup extends GroupConverter {
    private var entry: Option[ColumnEntry] = None
    private var growing = ColumnEntry()
    private val values = mutable.ArrayBuffer.empty[Value]

    private val fields = Array[Converter](
      new PrimitiveConverter {
        override def addLong(nulls: Long): Unit = growing = growing.copy(nulls = Some(nulls))
      },
      new Each(value => growing = growing.copy(minimum = Some(value))),
      new Each(value => growing = growing.copy(maximum = Some(value))),
      new Fields(Seq(new Fields(Seq(new Each(values += _))))) {
        override def start(): Unit = values.clear()
        override def end(): Unit = growing = growing.copy(values = Some(values.toVector))
      },
      new PrimitiveConverter {
        override def addBinary(binary: Binary): Unit = growing =
          growing.copy(bloom = BloomFilter.fromBytes(binary.getBytes))
      }
    )

    /** The entry that was read since the last call. */
    def take(): Option[ColumnEntry] = {
      val result = entry
      entry = None
      result
    }

    override def getConverter(index: Int): Converter = fields(index)
    override def start(): Unit = growing = ColumnEntry()
    override def end(): Unit = entry = Some(growing)
  }
}
