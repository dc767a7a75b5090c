package io.penstock.skipping.join

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{AttributeReference, ExprId}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.sources.BaseRelation

import io.penstock.skipping.index.TableIndex

/** The file scans of one plan: which of their columns files can be skipped by, and what was decided about each. */
private[join] class Scans(indexOf: LogicalRelation => Option[TableIndex], benefit: Benefit) {

  private val indexes = mutable.HashMap.empty[BaseRelation, Option[TableIndex]]
  private val decisions = mutable.LinkedHashSet.empty[(ExprId, Decision)]

  def areIndexed(plan: LogicalPlan): Boolean = plan.exists {
    case relation: LogicalRelation => index(relation).isDefined
    case _ => false
  }

  /** Whether a filter by keys on this column of the scan is worth it. */
  def accept(relation: LogicalRelation, column: AttributeReference): Boolean = index(relation).exists { index =>
    val refusal = benefit.refuseColumn(index.column(column.name), index.files)
    refusal.foreach(decide(column, attempted = false, _))
    refusal.isEmpty
  }

  def decide(column: AttributeReference, attempted: Boolean, reason: String): Unit =
    decisions += column.exprId -> Decision(column.name, attempted, reason)

  /** Of a column that is filtered, what was refused as well is not worth telling. */
  def record(plan: LogicalPlan): Unit = plan.foreach {
    case relation: LogicalRelation =>
      val told = relation.output.flatMap { column =>
        val made = decisions.toSeq.collect { case (column.exprId, decision) => decision }
        if (made.exists(_.attempted)) made.filter(_.attempted) else made
      }
      Decision.record(relation, told)
    case _ =>
  }

  private def index(relation: LogicalRelation): Option[TableIndex] =
    indexes.getOrElseUpdate(relation.relation, indexOf(relation))
}
