package io.penstock.skipping.join

import java.util.IdentityHashMap

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{AttributeReference, ExprId, Expression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}

import io.penstock.skipping.index.TableIndex

/** The file scans of one plan: which of their columns files can be skipped by, and what was decided about each. */
private[join] class Scans(plan: LogicalPlan, indexOf: HadoopFsRelation => Option[TableIndex], benefit: Benefit) {

  // By identity: to compare two of them is to compare the directories of all their partitions.
  private val indexes = new IdentityHashMap[HadoopFsRelation, Option[TableIndex]]
  private val decisions = mutable.LinkedHashSet.empty[(ExprId, Decision)]

  /** None where the scan's table has none that can be used. */
  def index(relation: LogicalRelation): Option[TableIndex] = relation.relation match {
    case files: HadoopFsRelation => indexes.computeIfAbsent(files, indexOf(_))
    case _ => None
  }

  /** Whether files of some scan may be skipped: not of a table that is one file, as most small ones are. */
  def mayBeFiltered(plan: LogicalPlan): Boolean = plan.exists {
    case relation: LogicalRelation => index(relation).exists(_.files > 1)
    case _ => false
  }

  /** Whether a filter by keys on this column of the scan is worth it. */
  def accept(relation: LogicalRelation, column: AttributeReference): Boolean =
    index(relation).exists(refuse(relation, column, _).isEmpty)

  /** Whether none is, of keys by this expression, wherever they arrive: noted with the reason. */
  def refuses(expression: Expression): Boolean = DynamicFilter.column(expression).forall { column =>
    owners.get(column.exprId).exists { relation =>
      index(relation).forall { index =>
        val reason = refuse(relation, column, index)
        reason.foreach(decide(column, attempted = false, _))
        reason.isDefined
      }
    }
  }

  private lazy val owners: Map[ExprId, LogicalRelation] = plan
    .collect { case relation: LogicalRelation =>
      relation.output.map(_.exprId -> relation)
    }
    .flatten
    .toMap

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
}
