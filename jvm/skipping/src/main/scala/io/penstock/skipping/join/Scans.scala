package io.penstock.skipping.join

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{AttributeReference, ExprId}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}

import io.penstock.skipping.index.TableIndex

/** The file scans of one plan: which of their columns files can be skipped by, and what was decided about each. */
private[join] class Scans(indexOf: HadoopFsRelation => Option[TableIndex], benefit: Benefit) {

  private val indexes = mutable.HashMap.empty[HadoopFsRelation, Option[TableIndex]]
  private val decisions = mutable.LinkedHashSet.empty[(ExprId, Decision)]

  def areIndexed(plan: LogicalPlan): Boolean = plan.exists {
    case relation: LogicalRelation => index(relation).isDefined
    case _ => false
  }

  /** Whether a filter by keys on this column of the scan is worth it. */
  def accept(relation: LogicalRelation, column: AttributeReference): Boolean =
    index(relation).exists(refuse(relation, column, _).isEmpty)

  /** Notes what was decided about a column because of where keys for it would come from. */
  def decide(column: AttributeReference, attempted: Boolean, reason: String): Unit =
    decisions += column.exprId -> Decision(column.name, attempted, reason)

  /** Tells the scans of a plan what was decided about their columns: of each, what weighs most. */
  def record(plan: LogicalPlan): Unit = plan.foreach {
    case relation: LogicalRelation =>
      val told = index(relation).toSeq.flatMap(index => relation.output.flatMap(decided(relation, _, index)))
      Decision.record(relation, told)
    case _ =>
  }

  private def decided(relation: LogicalRelation, column: AttributeReference, index: TableIndex): Seq[Decision] = {
    val made = decisions.toSeq.collect { case (column.exprId, decision) => decision }
    val (attempts, refusals) = made.partition(_.attempted)
    if (attempts.nonEmpty || made.isEmpty) attempts
    else
      refuse(relation, column, index).fold(refusals.take(1))(reason =>
        Seq(Decision(column.name, attempted = false, reason))
      )
  }

  /** Files of a partition hold one value of its column each: the index need not know of it. */
  private def refuse(relation: LogicalRelation, column: AttributeReference, index: TableIndex): Option[String] =
    relation.relation match {
      case files: HadoopFsRelation if files.partitionSchema.fieldNames.contains(column.name) => None
      case _ => benefit.refuseColumn(index.column(column.name), index.files)
    }

  private def index(relation: LogicalRelation): Option[TableIndex] = relation.relation match {
    case files: HadoopFsRelation => indexes.getOrElseUpdate(files, indexOf(files))
    case _ => None
  }
}
