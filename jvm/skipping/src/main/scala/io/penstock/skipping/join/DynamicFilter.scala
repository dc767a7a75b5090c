package io.penstock.skipping.join

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.PushDownPredicates
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, RepartitionOperation}
import org.apache.spark.sql.catalyst.trees.TreePattern.DYNAMIC_PRUNING_SUBQUERY
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}

import io.penstock.skipping.filter.Encoding
import io.penstock.skipping.line.DynamicPruning

/**
 * Spark's own filter by the keys of a join, on a data column of a file scan, where Spark itself has them on partition
 * columns only, or on a partition column that Spark's rule found no keys for. Spark plans it, and prunes partitions by
 * it; what it does on a data column is the business of `io.penstock.skipping.plan`.
 */
private[skipping] object DynamicFilter {

  private[join] def apply(pruned: Expression, source: KeySource, onlyInBroadcast: Boolean): DynamicPruningSubquery =
    DynamicPruning.subquery(pruned, source.plan, source.keys, source.index, onlyInBroadcast)

  /** The column whose files are skipped by values of the expression: itself, or a column it widens without loss. */
  def column(expression: Expression): Option[AttributeReference] = expression match {
    case attribute: AttributeReference => Some(attribute)
    case Cast(attribute: AttributeReference, wide, _, _) if Encoding.isLossless(attribute.dataType, wide) =>
      Some(attribute)
    case _ => None
  }

  /**
   * Puts the filter on top of a plan, has Spark push it down, and keeps it where it arrived right above a file scan and
   * `accept` takes it: what it looks at there is not for the rows.
   *
   * @return
   *   None where it arrived nowhere
   */
  def place(filter: DynamicPruningSubquery, plan: LogicalPlan)(
      accept: (LogicalRelation, AttributeReference) => Boolean
  ): Option[LogicalPlan] = {
    var arrived = false
    val placed = retain(PushDownPredicates(Filter(filter, plan))) { (relation, found, beside) =>
      found.exprId != filter.exprId || {
        val accepted = (isData(relation, found) || !isPrunedBySpark(found, beside)) &&
          column(found.pruningKey).exists(accept(relation, _))
        arrived ||= accepted
        accepted
      }
    }(found => found.exprId != filter.exprId)
    Option.when(arrived)(placed)
  }

  /** The plan without any of these filters on data columns; those on partition columns, Spark's own too, stay. */
  def strip(plan: LogicalPlan): LogicalPlan = retain(plan)((relation, found, _) => !isData(relation, found))(_ => true)

  private def isPrunedBySpark(filter: DynamicPruningSubquery, beside: Expression): Boolean = beside.exists {
    case other: DynamicPruningSubquery =>
      other.exprId != filter.exprId && other.pruningKey.semanticEquals(filter.pruningKey)
    case _ => false
  }

  private def isData(relation: LogicalRelation, filter: DynamicPruningSubquery): Boolean = relation.relation match {
    case files: HadoopFsRelation =>
      val data = files.dataSchema.fieldNames.toSet -- files.partitionSchema.fieldNames
      filter.pruningKey.references.forall(attribute => data(attribute.name))
    case _ => false
  }

  /** Keeps the filters that pass the first test right above a scan, or the second anywhere else. */
  private def retain(plan: LogicalPlan)(atScan: (LogicalRelation, DynamicPruningSubquery, Expression) => Boolean)(
      elsewhere: DynamicPruningSubquery => Boolean
  ): LogicalPlan =
    if (!plan.containsPattern(DYNAMIC_PRUNING_SUBQUERY)) plan
    else
      plan match {
        case filter @ Filter(condition, relation: LogicalRelation) => keep(filter)(atScan(relation, _, condition))
        case filter: Filter =>
          keep(filter)(elsewhere) match {
            case Filter(condition, child) => Filter(condition, retain(child)(atScan)(elsewhere))
            case other => retain(other)(atScan)(elsewhere)
          }
        // The two copies of a shared subquery are computed once as long as they are equal.
        case shared: RepartitionOperation => shared.mapChildren(retain(_)((_, found, _) => elsewhere(found))(elsewhere))
        case other => other.mapChildren(retain(_)(atScan)(elsewhere))
      }

  /** Leaves the shape of what stays as it was: doing the same twice gives the same plan. */
  private def keep(filter: Filter)(test: DynamicPruningSubquery => Boolean): LogicalPlan = {
    def kept(condition: Expression): Option[Expression] = condition match {
      case And(left, right) =>
        (kept(left), kept(right)) match {
          case (Some(a), Some(b)) => Some(if ((a eq left) && (b eq right)) condition else And(a, b))
          case (a, b) => a.orElse(b)
        }
      case found: DynamicPruningSubquery => Some(found).filter(test)
      case other => Some(other)
    }
    kept(filter.condition).fold(filter.child) { condition =>
      if (condition eq filter.condition) filter else filter.copy(condition = condition)
    }
  }
}
