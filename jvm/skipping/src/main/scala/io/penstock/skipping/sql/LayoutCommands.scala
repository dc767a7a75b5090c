package io.penstock.skipping.sql

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.types.{LongType, StringType}
import org.apache.spark.sql.{Row, SparkSession}

import io.penstock.skipping.advise.TableAdvice
import io.penstock.skipping.layout.{Layout, Rewrite, SourceTable}

/** The advised layout, what was measured and what is expected, and a row for each reason. */
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

/** `layout`: none where it is to be as advised. */
final case class RewriteTable(table: Seq[String], into: Option[Seq[String]], layout: Option[Layout])
    extends LeafRunnableCommand {

  override val output: Seq[Attribute] =
    Seq(AttributeReference("table", StringType, nullable = false)(), AttributeReference("layout", StringType)()) ++
      Seq("files_before", "bytes_before", "files", "bytes", "rows")
        .map(name => AttributeReference(name, LongType, nullable = false)())

  override def run(spark: SparkSession): Seq[Row] = {
    val source = SourceTable.toReplace(spark, table)
    val chosen = Rewrite.named(layout.getOrElse(advised(spark, source)), source)
    val done = new Rewrite(spark, source, chosen).run(into)
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
