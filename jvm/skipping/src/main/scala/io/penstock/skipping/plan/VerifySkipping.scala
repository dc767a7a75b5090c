package io.penstock.skipping.plan

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.expressions.{And, BinaryExpression, Expression, InputFileName, Predicate}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata

/**
 * The rule of `verify` mode: nothing is skipped; instead, rows of files that would be skipped are tested with the
 * scan's filters and the joins' keys. A match fails the query with an `IllegalStateException`.
 */
object VerifySkipping extends Rule[SparkPlan] {

  override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case scan: FileSourceScanExec => verified(scan)
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
        // A scan without filters skips nothing.
        conditions.reduceOption(And).fold[SparkPlan](scan) { condition =>
          FilterExec(ContributesNothing(condition, InputFileName(), paths), scan)
        }
      }
    case _ => scan
  }
}

/** The files that a scan would have skipped. The driver fills it before tasks are serialized with it. */
class SkippedPaths extends Serializable {
  @volatile private var paths = Set.empty[String]

  def set(files: Seq[FileStatusWithMetadata]): Unit =
    paths = files.map(file => SparkPath.fromPath(file.getPath).urlEncoded).toSet

  def contains(path: String): Boolean = paths(path)
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
          "Penstock is. Drop the table's skipping index (DROP SKIPPING INDEX ON ...) and please report this."
      )
    }
    true
  }

  override def toString: String = s"skipped files hold nothing for ($condition)"

  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): Expression =
    copy(condition = newLeft, file = newRight)
}
