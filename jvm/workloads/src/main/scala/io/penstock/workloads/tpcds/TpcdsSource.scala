package io.penstock.workloads.tpcds

import java.util

import scala.jdk.CollectionConverters._

import io.trino.tpcds.column.{Column, ColumnType}
import io.trino.tpcds.row.TableRow
import io.trino.tpcds.{Scaling, Session, Table}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.catalog.{SupportsRead, Table => SparkTable, TableCapability, TableProvider}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * A Spark data source that generates a TPC-DS table instead of reading one. Options: `table`, `scale`, and `chunks`,
 * the number of tasks that share the work; the rows do not depend on it.
 */
class TpcdsSource extends TableProvider {

  override def inferSchema(options: CaseInsensitiveStringMap): StructType = table(options).schema()

  override def getTable(schema: StructType, parts: Array[Transform], properties: util.Map[String, String]): SparkTable =
    table(new CaseInsensitiveStringMap(properties))

  private def table(options: CaseInsensitiveStringMap): GeneratedTable = {
    val name = options.get("table")
    val table = TpcdsTable.named(name).getOrElse(throw new IllegalArgumentException(s"TPC-DS has no table '$name'"))
    GeneratedTable(table, options.getDouble("scale", 1), options.getInt("chunks", 1))
  }
}

private case class GeneratedTable(table: TpcdsTable, scale: Double, chunks: Int)
    extends SparkTable
    with SupportsRead
    with ScanBuilder
    with Scan
    with Batch {

  private val scaling = TpcdsTable.session(scale).getScaling
  private val tableSchema = table.schema(scaling)

  override def name(): String = s"${table.name} at scale $scale"
  override def schema(): StructType = tableSchema
  override def readSchema(): StructType = tableSchema
  override def description(): String = s"generate ${name()}"
  override def capabilities(): util.Set[TableCapability] = util.EnumSet.of(TableCapability.BATCH_READ)
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = this
  override def build(): Scan = this
  override def toBatch: Batch = this

  override def planInputPartitions(): Array[InputPartition] = {
    val count = if (table.generator.keepsHistory) 1 else chunks
    Chunks.split(table.generatedRows(scaling), count).map(ChunkPartition(_): InputPartition).toArray
  }

  override def createReaderFactory(): PartitionReaderFactory =
    ChunkReaderFactory(table.generator.getName, scale, tableSchema)
}

private case class ChunkPartition(chunk: Chunk) extends InputPartition

private case class ChunkReaderFactory(name: String, scale: Double, schema: StructType) extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = partition match {
    case ChunkPartition(chunk) =>
      val table = TpcdsTable.named(name).get.generator
      new ChunkReader(new GeneratedRows(table, chunk, scale), RowDecoder.of(table, schema))
    case other => throw new IllegalArgumentException(s"not a chunk of a generated table: $other")
  }
}

private class ChunkReader(rows: Iterator[TableRow], decoder: RowDecoder) extends PartitionReader[InternalRow] {
  private var current: InternalRow = _

  override def next(): Boolean = rows.hasNext && {
    current = decoder.decode(rows.next())
    true
  }

  override def get(): InternalRow = current

  override def close(): Unit = ()
}

/** One of the 24 tables: its generator, and its schema in the types that Spark's own TPC-DS schema has. */
case class TpcdsTable(generator: Table) {

  def name: String = generator.getName

  /** `order numbers` outgrow an INT beyond scale 8,000 or so; at every scale below, the type is Spark's. */
  def schema(scaling: Scaling): StructType = {
    val wideOrders = scaling.getRowCount(generator) > Int.MaxValue
    StructType(generator.getColumns.toSeq.map { column =>
      val name = TpcdsTable.columnName(column)
      val wide = wideOrders && (name.endsWith("_order_number") || name.endsWith("_ticket_number"))
      StructField(name, if (wide) LongType else TpcdsTable.sparkType(column.getType))
    })
  }

  /** The generator's unit: orders for the tables of sales and returns, rows for the others. */
  def generatedRows(scaling: Scaling): Long = scaling.getRowCount(generator)
}

object TpcdsTable {

  /** In the specification's order; without `dbgen_version`, which no query reads. */
  val all: Seq[TpcdsTable] =
    Table.getBaseTables.asScala.toSeq.filterNot(_ == Table.DBGEN_VERSION).map(TpcdsTable(_))

  def named(name: String): Option[TpcdsTable] = all.find(_.name == name)

  def session(scale: Double): Session = Session.getDefaultSession.withScale(scale)

  // The names of the queries and of Spark's schema, by the generator's that differ.
  private val corrected = Map(
    "s_tax_precentage" -> "s_tax_percentage",
    "p_response_targe" -> "p_response_target",
    "c_last_review_date_sk" -> "c_last_review_date"
  )

  private def columnName(column: Column): String = corrected.getOrElse(column.getName, column.getName)

  private def sparkType(declared: ColumnType): DataType = declared.getBase match {
    case ColumnType.Base.IDENTIFIER | ColumnType.Base.INTEGER => IntegerType
    case ColumnType.Base.DECIMAL => DecimalType(declared.getPrecision.get, declared.getScale.get)
    case ColumnType.Base.DATE => DateType
    // Plain strings: the padding of CHAR would change what the queries return.
    case ColumnType.Base.CHAR | ColumnType.Base.VARCHAR | ColumnType.Base.TIME => StringType
  }
}
