package io.penstock.skipping.index

import java.io.IOException

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.parquet.column.Dictionary
import org.apache.parquet.hadoop.ParquetReader
import org.apache.parquet.hadoop.api.{InitContext, ReadSupport}
import org.apache.parquet.hadoop.util.HadoopInputFile
import org.apache.parquet.io.InputFile
import org.apache.parquet.io.api._
import org.apache.parquet.schema.MessageType

/** Reads what [[EntryWriter]] wrote. */
private[index] object EntryReader {

  /**
   * The entries of a part, with these columns of them; without any, just which files it knows. Throws an
   * [[IndexDamage]] where the part is not as the manifest says.
   */
  def read(file: Path, part: Manifest.Part, columns: Seq[IndexedColumn], conf: Configuration): Vector[FileEntry] = {
    def damage(what: String, cause: Throwable = null) =
      new IndexDamage(s"has a part, ${part.name}, that $what: build it anew to use one", cause)
    try {
      val input = HadoopInputFile.fromPath(file, conf)
      if (input.getLength != part.bytes) throw damage(s"has ${input.getLength} bytes instead of ${part.bytes}")
      // A wrong bound would hide files: pages carry checksums, which are not looked at by default.
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
    // Throws where the file has it otherwise.
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

  /** Decodes each string of a dictionary once, and so keeps each directory's name once in memory. */
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
        override def addBinary(binary: Binary): Unit = growing = growing.copy(bloom = Bloom.fromBytes(binary.getBytes))
      }
    )

    /** What was read since this was asked last. */
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
