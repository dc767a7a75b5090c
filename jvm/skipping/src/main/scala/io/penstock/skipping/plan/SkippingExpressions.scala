package io.penstock.skipping.plan

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.{ExprId, Expression, Literal, Predicate}
import org.apache.spark.sql.catalyst.trees.UnaryLike
import org.apache.spark.sql.execution.{BaseSubqueryExec, ExecSubqueryExpression, ReusedSubqueryExec}

/**
 * Stands among a scan's data filters, to be called when the scan is about to run: Spark waits for the subqueries of an
 * operator's expressions first. As a filter it says nothing about rows.
 */
sealed abstract class SkippingExpression extends ExecSubqueryExpression with Predicate {
  def skipping: ScanSkipping
  override def nullable: Boolean = false
  override def eval(input: InternalRow): Any = true
  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = Literal.TrueLiteral.genCode(ctx)
}

/**
 * Brings where to tell what the scan skipped, and those of its filters that hold subqueries, with their results. One
 * for each scan.
 *
 * @param dataFilters
 *   that compare columns with subqueries' results
 * @param partitionFilters
 *   by which the scan leaves out partitions after it has listed its files
 */
case class SkippedFiles(
    dataFilters: Seq[Expression],
    partitionFilters: Seq[Expression],
    plan: BaseSubqueryExec,
    @transient skipping: ScanSkipping
) extends SkippingExpression {

  // Nothing refers to it, and a new one each time would make equal plans different.
  override def exprId: ExprId = ExprId(0)

  override def children: Seq[Expression] = dataFilters ++ partitionFilters

  // Spark goes on to the subqueries inside the filters after this: they are looked at when files are selected.
  override def updateResult(): Unit = SkippedFiles.node(plan).foreach(skipping.start(_, dataFilters, partitionFilters))

  override def withNewPlan(plan: BaseSubqueryExec): SkippedFiles = copy(plan = plan)

  override def toString: String = plan.simpleString(Int.MaxValue)

  override lazy val canonicalized: Expression = SkippedFiles(
    dataFilters.map(_.canonicalized),
    partitionFilters.map(_.canonicalized),
    plan.canonicalized.asInstanceOf[BaseSubqueryExec],
    null
  )

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): Expression =
    copy(dataFilters = newChildren.take(dataFilters.size), partitionFilters = newChildren.drop(dataFilters.size))
}

object SkippedFiles {
  private def node(plan: BaseSubqueryExec): Option[SkippedFilesExec] = plan match {
    case node: SkippedFilesExec => Some(node)
    case ReusedSubqueryExec(inner) => node(inner)
    case _ => None
  }
}

/**
 * Brings the keys of a join: files that hold none of them in `child` are skipped.
 *
 * @param plan
 *   Spark's own subquery, one column; its rows are the keys
 * @param limit
 *   more keys than this are compressed to so many intervals
 * @param patience
 *   for how many seconds to wait for them; then the scan does without
 */
case class SkippingKeys(
    child: Expression,
    plan: BaseSubqueryExec,
    exprId: ExprId,
    column: KeyColumn,
    limit: Int,
    patience: Long,
    @transient skipping: ScanSkipping
) extends SkippingExpression
    with UnaryLike[Expression] {

  override def updateResult(): Unit =
    for {
      rows <- Patience.rows(plan, patience)
      encoding <- column.encoding
    } {
      val values = rows.iterator.filterNot(_.isNullAt(0)).map(_.get(0, child.dataType))
      skipping.publish(exprId, column.name, encoding.points(values).compressed(limit))
    }

  override def withNewPlan(plan: BaseSubqueryExec): SkippingKeys = copy(plan = plan)

  override def toString: String = s"$child IN ${plan.name}"

  override lazy val canonicalized: Expression = copy(
    child = child.canonicalized,
    plan = plan.canonicalized.asInstanceOf[BaseSubqueryExec],
    exprId = ExprId(0),
    skipping = null
  )

  override protected def withNewChildInternal(newChild: Expression): SkippingKeys = copy(child = newChild)
}
