package io.penstock.skipping.join

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.Count
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.types.IntegerType

import io.penstock.skipping.fuzz.Dice

/** Random trees of joins over tiny tables. */
private[join] class PlanModel(dice: Dice) {

  import PlanModel._

  def tree: LogicalPlan = plan(dice.between(1, 4))

  /** Right sides of semi joins: Spark itself makes two joins with the same one. */
  private val asked = mutable.ArrayBuffer.empty[LogicalPlan]

  private def plan(joins: Int): LogicalPlan =
    if (joins == 0) table
    else {
      val onTheLeft = dice.below(joins)
      val (left, other) = (plan(onTheLeft), plan(joins - 1 - onTheLeft))
      val kind = dice.of(Inner, Inner, Inner, LeftOuter, RightOuter, LeftSemi, LeftAnti)
      val right = if (kind == LeftSemi && asked.nonEmpty && dice.chance(0.5)) dice.oneOf(asked.toSeq) else other
      if (kind == LeftSemi) asked += right
      val comparison = Option.when(dice.chance(0.2))(GreaterThanOrEqual(column(left), column(right)))
      above(join(left, right, kind)(EqualTo(column(left), column(right)) +: comparison.toSeq: _*))
    }

  private def table: LogicalPlan = {
    val value = () => if (dice.chance(0.1)) null else dice.below(5)
    val rows = Seq.fill(dice.between(0, 6))(InternalRow(value(), value()))
    val all = LocalRelation(Seq.fill(2)(attribute("c")), rows)
    if (dice.chance(0.3)) Filter(GreaterThanOrEqual(all.output.head, Literal(dice.below(3))), all) else all
  }

  private def above(plan: LogicalPlan): LogicalPlan = dice.weighed(
    4 -> (() => plan),
    1 -> (() => Filter(GreaterThanOrEqual(column(plan), Literal(1)), plan)),
    1 -> (() => Project(some(plan).map(named), plan)),
    2 -> { () =>
      val by = some(plan)
      Aggregate(by, by.map(named) :+ count, plan)
    }
  )

  private def some(plan: LogicalPlan): Seq[Attribute] = dice.some(plan.output, plan.output.size)

  private def named(column: Attribute): NamedExpression = if (dice.chance(0.5)) column else Alias(column, "n")()

  private def column(plan: LogicalPlan): Attribute = dice.oneOf(plan.output)
}

/** The least that answers such plans. */
private[join] object PlanModel {

  private type Row = Map[ExprId, Option[Int]]

  def attribute(name: String): AttributeReference = AttributeReference(name, IntegerType)()

  def relation(names: String*): LocalRelation = LocalRelation(names.map(attribute))

  def join(left: LogicalPlan, right: LogicalPlan, kind: JoinType)(conditions: Expression*): Join =
    Join(left, right, kind, conditions.reduceOption(And(_, _)), JoinHint.NONE)

  // As wide as the columns it may be joined with.
  private def count: Alias =
    Alias(Cast(Count(Seq(Literal(1))).toAggregateExpression(), IntegerType), "count")()

  /** The plan's rows in an order of their own. */
  def answer(plan: LogicalPlan): Seq[String] =
    rows(plan).map(row => plan.output.map(column => row(column.exprId)).mkString(" ")).sorted

  def values(plan: LogicalPlan, column: Attribute): Seq[Int] = rows(plan).flatMap(_(column.exprId)).distinct

  /** How many rows there are to begin with. */
  def rowsBelow(plan: LogicalPlan): Int = JoinTree.top(plan) match {
    case Some(join) => join.children.map(rowsBelow).sum
    case None => rows(plan).size
  }

  private def rows(plan: LogicalPlan): Seq[Row] = plan match {
    case table: LocalRelation =>
      table.data.map { row =>
        table.output.zipWithIndex.map { case (column, i) =>
          column.exprId -> Option.when(!row.isNullAt(i))(row.getInt(i))
        }.toMap
      }
    case Filter(condition, child) => rows(child).filter(isTrue(condition, _))
    case Project(columns, child) => rows(child).map(row => named(columns, row, 0))
    case Join(left, right, kind, condition, _) => joined(rows(left), rows(right), left, right, kind, condition)
    case grouping: Aggregate =>
      rows(grouping.child)
        .groupBy(row => grouping.groupingExpressions.map(value(_, row)))
        .values
        .map(group => named(grouping.aggregateExpressions, group.head, group.size))
        .toSeq
    case other => throw new IllegalArgumentException(s"no such plan here: $other")
  }

  /** What is not a column of the rows is their count. */
  private def named(columns: Seq[NamedExpression], row: Row, count: Int): Row = columns.map {
    case alias @ Alias(column: Attribute, _) => alias.exprId -> row(column.exprId)
    case alias: Alias => alias.exprId -> Some(count)
    case column => column.exprId -> row(column.exprId)
  }.toMap

  private def joined(
      lefts: Seq[Row],
      rights: Seq[Row],
      left: LogicalPlan,
      right: LogicalPlan,
      kind: JoinType,
      condition: Option[Expression]
  ): Seq[Row] = {
    def partners(a: Seq[Row], b: Seq[Row]): Seq[(Row, Seq[Row])] =
      a.map(row => row -> b.filter(other => condition.forall(isTrue(_, row ++ other))))
    def nulls(plan: LogicalPlan): Row = plan.output.map(_.exprId -> Option.empty[Int]).toMap
    def outer(preserved: Seq[Row], others: Seq[Row], supplied: LogicalPlan): Seq[Row] =
      partners(preserved, others).flatMap { case (row, found) =>
        (if (found.isEmpty) Seq(nulls(supplied)) else found).map(row ++ _)
      }
    kind match {
      case Inner => partners(lefts, rights).flatMap { case (row, found) => found.map(row ++ _) }
      case LeftOuter => outer(lefts, rights, right)
      case RightOuter => outer(rights, lefts, left)
      case LeftSemi => partners(lefts, rights).collect { case (row, found) if found.nonEmpty => row }
      case LeftAnti => partners(lefts, rights).collect { case (row, found) if found.isEmpty => row }
      case other => throw new IllegalArgumentException(s"no such join here: $other")
    }
  }

  private def isTrue(condition: Expression, row: Row): Boolean = condition match {
    case And(a, b) => isTrue(a, row) && isTrue(b, row)
    case EqualTo(a, b) => value(a, row).exists(value(b, row).contains)
    case GreaterThanOrEqual(a, b) => value(a, row).exists(x => value(b, row).exists(x >= _))
    case In(a, list) => value(a, row).exists(x => list.exists(value(_, row).contains(x)))
    case other => throw new IllegalArgumentException(s"no such condition here: $other")
  }

  private def value(expression: Expression, row: Row): Option[Int] = expression match {
    case column: Attribute => row(column.exprId)
    case Literal(number: Int, _) => Some(number)
    case other => throw new IllegalArgumentException(s"no such value here: $other")
  }
}
