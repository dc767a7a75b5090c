package io.penstock.skipping.join

import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.expressions.{Expression, SubqueryExpression}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.types._

/**
 * Whether a plan yields the same rows when it is run once more.
 *
 * The keys of a join's side may come from a second run of it: a key the second run misses would lose rows of the join.
 * Catalyst's `deterministic` is not enough: a LIMIT may take other rows, a window function break ties otherwise,
 * `first` and `collect_list` see rows in another order, and the code of typed operations may do anything. So operators
 * and aggregate functions are named here that do not look at the order of rows; whatever is not named is not
 * repeatable.
 */
private[join] object Repeatable {

  def apply(plan: LogicalPlan): Boolean =
    plan.deterministic && !plan.isStreaming && isRepeatable(plan) && plan.children.forall(apply) &&
      plan.expressions.forall(_.collect { case subquery: SubqueryExpression => subquery.plan }.forall(apply))

  private def isRepeatable(node: LogicalPlan): Boolean = node match {
    case LogicalRelation(_: HadoopFsRelation, _, _, _, _) | _: LocalRelation | _: OneRowRelation => true
    case _: Project | _: Filter | _: Join | _: Union => true
    case Aggregate(groups, results, _, _) => groups.forall(isExact) && results.forall(isExact)
    case _ => false
  }

  /** Whether equal values are the same value throughout, and no aggregate in it depends on the order of rows. */
  private def isExact(expression: Expression): Boolean = !expression.exists {
    case AggregateExpression(function, _, _, _, _) => !ignoresOrder(function)
    case part => !isExact(part.dataType)
  }

  private def ignoresOrder(function: AggregateFunction): Boolean = function match {
    // Spark's own filter of rows that find no partner later on: the bits of all values.
    case _: Count | _: Min | _: Max | _: BloomFilterAggregate => true
    // try_sum and try_avg give null where they overflow, which may be on the way in one order and not in another.
    case sum: Sum => sum.prettyName == "sum" && cannotOverflow(sum.child.dataType)
    case average: Average => average.prettyName == "avg" && cannotOverflow(average.child.dataType)
    case _ => false
  }

  private def cannotOverflow(summed: DataType): Boolean = summed match {
    // Of whole numbers it wraps around, which every order does alike, or fails.
    case ByteType | ShortType | IntegerType | LongType => true
    case decimal: DecimalType => decimal.precision + DigitsOfSum <= DecimalType.MAX_PRECISION
    case _ => false
  }

  /** Spark's sums of decimals have as many digits more. */
  private val DigitsOfSum = 10

  /**
   * Neither approximate, nor with values that are equal and look different: zeros of two signs, texts of a collation.
   */
  private def isExact(dataType: DataType): Boolean = dataType match {
    case ByteType | ShortType | IntegerType | LongType | BooleanType => true
    case DateType | TimestampType | TimestampNTZType | StringType | BinaryType | NullType => true
    case _: DecimalType => true
    case ArrayType(element, _) => isExact(element)
    case StructType(fields) => fields.forall(field => isExact(field.dataType))
    case _ => false
  }
}
