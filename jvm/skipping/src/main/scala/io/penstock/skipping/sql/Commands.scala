package io.penstock.skipping.sql

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Row, SparkSession}

import io.penstock.skipping.advise.TableAdvice
import io.penstock.skipping.build.{Change, DescribedColumn, IndexMaintenance, IndexedTable}
import io.penstock.skipping.history.Questions
import io.penstock.skipping.index.{Kind, PlannedColumn}
import io.penstock.skipping.layout.{Layout, SourceTable, TableRewrite}

/**
 * A runnable command of a statement about an index; `table` has the parts of the table's name. Failures are those of
 * [[IndexMaintenance]].
 */
sealed trait SkippingCommand extends LeafRunnableCommand {

  def table: Seq[String]

  protected def run(spark: SparkSession, table: IndexedTable): Seq[Row]

  final override def run(spark: SparkSession): Seq[Row] = run(spark, IndexedTable.of(spark, table))
}

final case class BuildIndex(table: Seq[String], columns: Option[Seq[String]], kinds: Option[Seq[String]])
    extends SkippingCommand {

  override val output: Seq[Attribute] = Changed.output

  override protected def run(spark: SparkSession, table: IndexedTable): Seq[Row] =
    Changed.rows(
      IndexMaintenance.build(spark, table, columns, kinds.map(_.map(Kind.of).toSet), Questions.of(spark, table.root))
    )
}

final case class RefreshIndex(table: Seq[String]) extends SkippingCommand {

  override val output: Seq[Attribute] = Changed.output

  override protected def run(spark: SparkSession, table: IndexedTable): Seq[Row] =
    IndexMaintenance.refresh(spark, table) match {
      case Some(change) => Changed.rows(change)
      case None =>
        throw new IllegalArgumentException(
          s"${table.name} has no skipping index to refresh: BUILD SKIPPING INDEX ON ${table.name} makes one"
        )
    }
}

/** Shows the index; no rows where the table has none. */
final case class ShowIndex(table: Seq[String]) extends SkippingCommand {

  override val output: Seq[Attribute] = Seq(
    AttributeReference("column", StringType, nullable = false)(),
    AttributeReference("type", StringType, nullable = false)(),
    AttributeReference("kinds", StringType, nullable = false)(),
    AttributeReference("files", IntegerType)(),
    AttributeReference("files_per_key", DoubleType)(),
    AttributeReference("why", StringType, nullable = false)()
  )

  override protected def run(spark: SparkSession, table: IndexedTable): Seq[Row] =
    IndexMaintenance.show(spark, table).toSeq.flatMap { index =>
      val types = table.columns.map(field => field.name -> field.dataType.sql).toMap
      index.columns.map(covered) ++
        index.leftOut.map(left => Row(left.name, types.getOrElse(left.name, ""), "", null, null, left.why))
    }

  private def covered(described: DescribedColumn): Row = {
    val DescribedColumn(PlannedColumn(column, kinds, why, _), summary) = described
    val named = Kind.all.filter(kinds).map(_.name).mkString(", ")
    val filesPerKey = summary.filter(_.bounded > 0).map(_.filesPerKey)
    Row(column.name, column.dataType.sql, named, summary.fold(0)(_.bounded), filesPerKey.getOrElse(null), why)
  }
}

final case class DropIndex(table: Seq[String]) extends SkippingCommand {

  override val output: Seq[Attribute] = Seq(AttributeReference("dropped", BooleanType, nullable = false)())

  override protected def run(spark: SparkSession, table: IndexedTable): Seq[Row] =
    Seq(Row(IndexMaintenance.drop(spark, table)))
}

private object Changed {

  private val counts: Seq[(String, Change => Long)] = Seq(
    "files" -> (_.listed.toLong),
    "read" -> (_.read),
    "obsolete" -> (_.obsolete.toLong),
    "unreadable" -> (_.unreadable.size.toLong),
    "unsettled" -> (_.unsettled.toLong)
  )

  // New attributes for each command: their IDs must be unique to its plan.
  def output: Seq[Attribute] = counts.map { case (name, _) => AttributeReference(name, LongType, nullable = false)() }

  def rows(change: Change): Seq[Row] = Seq(Row.fromSeq(counts.map { case (_, count) => count(change) }))
}

/** Shows the advised layout, the present and the expected reads, and a row for each reason. */
final case class ShowAdvice(table: Seq[String]) extends LeafRunnableCommand {

  override val output: Seq[Attribute] = Seq(
    AttributeReference("item", StringType, nullable = false)(),
    AttributeReference("value", StringType)()
  )

  override def run(spark: SparkSession): Seq[Row] = {
    val source = SourceTable.of(spark, table)
    val advice = TableAdvice.of(spark, source)
    Seq(
      Row("layout", advice.layout.map(_.sql).orNull),
      Row("scans", advice.scans.toString),
      Row("bytes now", advice.bytesNow.toString),
      Row("bytes then", advice.bytesThen.toString)
    ) ++ advice.reasons.map(Row("why", _)) ++
      advice.layout.map(layout => Row("statement", s"REWRITE TABLE ${source.sqlName} ${layout.sql}"))
  }
}

/** Rewrites a table; `layout`: None for the advised one. */
final case class RewriteTable(table: Seq[String], into: Option[Seq[String]], layout: Option[Layout])
    extends LeafRunnableCommand {

  override val output: Seq[Attribute] =
    Seq(AttributeReference("table", StringType, nullable = false)(), AttributeReference("layout", StringType)()) ++
      Seq("files_before", "bytes_before", "files", "bytes", "rows")
        .map(name => AttributeReference(name, LongType, nullable = false)())

  override def run(spark: SparkSession): Seq[Row] = {
    val source = SourceTable.toReplace(spark, table)
    val chosen = TableRewrite.named(layout.getOrElse(advised(spark, source)), source)
    val done = new TableRewrite(spark, source, chosen).run(into)
    val counts = Seq(done.filesBefore.toLong, done.bytesBefore, done.files.toLong, done.bytes, done.rows)
    Seq(Row.fromSeq(Seq(done.table.mkString("."), chosen.sql) ++ counts))
  }

  private def advised(spark: SparkSession, source: SourceTable): Layout = {
    val advice = TableAdvice.of(spark, source)
    advice.layout.getOrElse {
      throw new IllegalArgumentException(
        s"No other layout of ${source.sqlName} is advised: ${advice.reasons.mkString("; ")}. Name one yourself"
      )
    }
  }
}
