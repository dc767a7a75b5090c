package io.penstock.skipping.history

import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanHelper
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.{FileSourceScanExec, SparkPlan}

import io.penstock.skipping.filter.{FileFilter, StaticFilters}
import io.penstock.skipping.index.{Domain, IndexedColumn, TablePath}
import io.penstock.skipping.plan.SkippingFileIndex

/** What a query that was run asked of the Parquet tables it read. */
private[history] class ScanNotes(caseSensitive: Boolean) extends AdaptiveSparkPlanHelper {

  import ScanNotes._

  def of(plan: SparkPlan): Seq[ScanNote] = {
    val joined = new JoinKeys(MostIntervals).of(plan)
    for {
      scan <- collectWithSubqueries(plan) {
        case scan: FileSourceScanExec if scan.relation.fileFormat.isInstanceOf[ParquetFileFormat] => scan
      }
      table <- root(scan)
      byJoin = joined.collect {
        case (attribute, keys) if scan.outputSet.contains(attribute) => Condition(attribute.name, byJoin = true, keys)
      }
      asked = distinct(byLiterals(scan) ++ seen(byJoin ++ bySkipping(scan)))
      // Of a scan that asks for nothing in particular no layout spares a file.
      if asked.nonEmpty
    } yield ScanNote(table, asked, 1, count(scan, "numFiles"), count(scan, "filesSize"))
  }

  private def byLiterals(scan: FileSourceScanExec): Seq[Condition] = {
    val columns = for {
      field <- scan.relation.schema.fields.toSeq if Domain.of(field.dataType).isDefined
    } yield IndexedColumn(field.name, field.dataType)
    asked(new StaticFilters(columns, caseSensitive).translate(scan.partitionFilters ++ scan.dataFilters))
  }

  /** By keys of runs beside the query, and of joins further away: no broadcast of a join of this scan has those. */
  private def bySkipping(scan: FileSourceScanExec): Seq[Condition] = scan.relation.location match {
    case index: SkippingFileIndex =>
      index.skipping.joinKeys.map { case (column, keys) =>
        Condition(column, byJoin = true, Some(keys.compressed(MostIntervals)))
      }
    case _ => Nil
  }

  /** Without those of which nothing is known but that they were asked, where something is. */
  private def seen(byJoin: Seq[Condition]): Seq[Condition] = {
    val known = byJoin.filter(_.keys.isDefined).map(_.column).toSet
    byJoin.filter(condition => condition.keys.isDefined || !known(condition.column))
  }

  private def asked(filter: FileFilter): Seq[Condition] = filter match {
    case FileFilter.And(parts) => parts.flatMap(asked)
    case FileFilter.Among(column, keys) =>
      Seq(Condition(column, byJoin = false, Some(keys.compressed(MostIntervals))))
    case _ => Nil
  }

  /** The same question has the same conditions in the same order, whichever way Spark has found them. */
  private def distinct(conditions: Seq[Condition]): Seq[Condition] =
    conditions.map(condition => NoteFile.identity(condition) -> condition).distinctBy(_._1).sortBy(_._1).map(_._2)

  private def count(scan: FileSourceScanExec, metric: String): Long = scan.metrics.get(metric).fold(0L)(_.value)

  /** None where no partition was left. */
  private def root(scan: FileSourceScanExec): Option[String] = {
    val partitions = scan.relation.partitionSchema.fieldNames.toSeq
    scan.relation.location.rootPaths.headOption.map(path => TablePath.abovePartitions(path, partitions).toString)
  }
}

private object ScanNotes {

  /** More say little that advice needs, and make notes long. */
  private val MostIntervals = 64
}
