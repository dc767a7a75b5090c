package io.penstock.skipping.advise

import org.apache.spark.sql.SparkSession

import io.penstock.skipping.SkippingSettings
import io.penstock.skipping.history.{History, ScanNote}
import io.penstock.skipping.index.Domain
import io.penstock.skipping.layout.{ColumnSample, ObjectOf, SourceTable}

/** Advice on a table from the session's history. Reads a sample of the columns that the history asks for. */
object TableAdvice {

  /** Throws an `IllegalArgumentException` where the session keeps no history. */
  def of(spark: SparkSession, table: SourceTable): Advice = {
    val settings = new SkippingSettings(spark.sessionState.conf)
    val directory = settings.history.getOrElse {
      throw new IllegalArgumentException(
        s"There is no history to go by: set ${SkippingSettings.Prefix}history to the directory that queries note in"
      )
    }
    val history = new History(directory, spark.sessionState.newHadoopConf())
    val notes = applicable(history.of(table.root.toString), table)
    Advisor.advise(notes, facts(table, notes), PresentLayout.of(spark, table), settings.objectBytes)
  }

  /** Without what was asked of columns that the table no longer has, or has with another type. */
  private def applicable(notes: Seq[ScanNote], table: SourceTable): Seq[ScanNote] = {
    val domains = table.frame.schema.map(field => field.name -> Domain.of(field.dataType)).toMap
    notes.map(note =>
      note.copy(conditions = note.conditions.filter { condition =>
        domains.get(condition.column).exists(domain => condition.keys.forall(keys => domain.contains(keys.domain)))
      })
    )
  }

  private def facts(table: SourceTable, notes: Seq[ScanNote]): TableFacts = {
    val asked = notes.flatMap(_.conditions).map(_.column).distinct
    val columns = table.frame.schema.filter(field => asked.contains(field.name) && table.canBeRanged(field))
    val rows = if (columns.isEmpty) Nil else table.sample(columns.map(_.name)).map(ObjectOf.split(_, 0)._2)
    val samples = columns.indices.map(i => columns(i).name -> ColumnSample.of(rows.map(_(i)))).toMap
    val partitionable = columns.filter(table.canPartition).map(_.name).toSet
    TableFacts(table.bytes, table.rows, samples, partitionable)
  }
}
