package io.penstock.workloads.tpcds

import scala.jdk.CollectionConverters._

import io.trino.tpcds.column.{Column, ColumnType}
import io.trino.tpcds.{Scaling, Session, Table}
import org.apache.spark.sql.types._

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

  /** What the generator counts: orders for the tables of sales and returns, rows for the others. */
  def generatedRows(scaling: Scaling): Long = scaling.getRowCount(generator)
}

object TpcdsTable {

  /** In the specification's order; without `dbgen_version`, which no query reads. */
  val all: Seq[TpcdsTable] =
    Table.getBaseTables.asScala.toSeq.filterNot(_ == Table.DBGEN_VERSION).map(TpcdsTable(_))

  def named(name: String): Option[TpcdsTable] = all.find(_.name == name)

  def session(scale: Double): Session = Session.getDefaultSession.withScale(scale)

  // Where the generator's names differ from those the queries and Spark's schema use.
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
