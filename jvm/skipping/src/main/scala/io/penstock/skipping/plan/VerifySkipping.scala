package io.penstock.skipping.plan

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.expressions.{
  And,
  BinaryExpression,
  DynamicPruningExpression,
  Expression,
  InputFileName,
  Predicate
}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec

import io.penstock.skipping.index.{IndexedScan, SkippedPaths}

/**
 * The rule of `verify` mode: nothing is skipped; instead, rows of files that would be skipped are tested with the
 * scan's filters and the joins' keys. A match fails the query with an `IllegalStateException`.
 */
object VerifySkipping extends Rule[SparkPlan] {

  override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case scan: FileSourceScanExec => verified(scan)
    case scan: BatchScanExec => verified(scan)
    // This plan was verified before.
    case FilterExec(_: ContributesNothing, inner @ FilterExec(_: ContributesNothing, _)) => inner
  }

  private def verified(scan: FileSourceScanExec): SparkPlan = scan.relation.location match {
    case index: SkippingFileIndex =>
      index.skipping.verification.fold[SparkPlan](scan) { paths =>
        val conditions = scan.dataFilters.collect {
          case keys: SkippingKeys => InSubqueryExec(keys.child, keys.plan, keys.exprId, isDynamicPruning = false)
          case filter if !filter.isInstanceOf[SkippingExpression] => filter
        }
        verified(scan, conditions, paths)
      }
    case _ => scan
  }

  private def verified(scan: BatchScanExec): SparkPlan = scan.scan match {
    case indexed: IndexedScan =>
      indexed.verification.fold[SparkPlan](scan) { paths =>
        val conditions = scan.runtimeFilters.collect { case DynamicPruningExpression(keys: InSubqueryExec) =>
          keys.copy(isDynamicPruning = false)
        }
        verified(scan, conditions, paths)
      }
    case _ => scan
  }

  /** A scan without conditions skips nothing. */
  private def verified(scan: SparkPlan, conditions: Seq[Expression], paths: SkippedPaths): SparkPlan =
    conditions.reduceOption(And).fold(scan) { condition =>
      FilterExec(ContributesNothing(condition, InputFileName(), paths), scan)
    }
}

/**
 * Always true; throws an `IllegalStateException` for a row of a file that would have been skipped and meets the
 * condition.
 *
 * @param file
 *   the path of the row's file
 */
case class ContributesNothing(condition: Expression, file: Expression, skipped: SkippedPaths)
    extends BinaryExpression
    with Predicate
    with CodegenFallback {

  override def left: Expression = condition
  override def right: Expression = file
  override def nullable: Boolean = false

  override def eval(row: InternalRow): Any = {
    val path = file.eval(row).toString
    if (skipped.contains(path) && condition.eval(row) == true) {
      throw new IllegalStateException(
        s"A file that would have been skipped holds a row of the query's result: $path. Either its index is wrong or " +
          "Penstock is. Drop the table's skipping index (DROP SKIPPING INDEX ON ...; of an Iceberg table, write the file " +
          "again: CALL system.rewrite_data_files) and please report this."
      )
    }
    true
  }

  override def toString: String = s"skipped files hold nothing for ($condition)"

  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): Expression =
    copy(condition = newLeft, file = newRight)
}
