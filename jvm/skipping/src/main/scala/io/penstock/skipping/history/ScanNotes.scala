package io.penstock.skipping.history

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanHelper
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.{FileSourceScanExec, SparkPlan}

import io.penstock.skipping.filter.{FileFilter, StaticFilters}
import io.penstock.skipping.index.{Domain, IndexedColumn}

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
      asked = distinct(byLiterals(scan) ++ byJoin)
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
    scan.relation.location.rootPaths.headOption.map(path => above(path, partitions).toString)
  }

  /** A catalog's table of which partitions were pruned has these for its roots. */
  private def above(path: Path, partitions: Seq[String]): Path = partitions.lastOption match {
    case Some(column) if path.getName.startsWith(s"$column=") => above(path.getParent, partitions.init)
    case _ => path
  }
}

private object ScanNotes {

  /** More say little that advice needs, and make notes long. */
  private val MostIntervals = 64
}
