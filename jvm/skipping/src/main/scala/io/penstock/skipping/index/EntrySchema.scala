package io.penstock.skipping.index

import scala.jdk.CollectionConverters._

import org.apache.parquet.schema.LogicalTypeAnnotation.{TimeUnit, stringType, timestampType}
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName.{BINARY, INT64}
import org.apache.parquet.schema.Type.Repetition.{OPTIONAL, REQUIRED}
import org.apache.parquet.schema.{GroupType, MessageType, Type, Types}

/**
 * How a [[FileEntry]] is laid down in Parquet: a row for each, a group for each column below `columns`. Any Parquet
 * reader can look at it.
 */
private[index] object EntrySchema {

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
