package io.penstock.skipping.join

import org.apache.spark.sql.catalyst.expressions.{AttributeSet, ExprId}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, Filter, Join, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.plans.{ExistenceJoin, InnerLike, LeftAnti, LeftOuter, LeftSemi, RightOuter}

/**
 * Joins of which one is the top, with nothing but filters, projections and groupings between them. What lies below are
 * its relations.
 */
private[join] class JoinTree(val top: Join) {

  /**
   * Right sides of semi joins with columns that are found elsewhere in the tree, too: of `a IN (…)` and `a = b` Spark
   * makes two semi joins with the same plan. Each is a relation here, and a tree of its own: what is said of a column
   * that is in two places could be meant for either. Nobody above sees more of it than the columns it yields.
   */
  private val apart: Seq[LogicalPlan] = {
    val columns = JoinTree.columns(top).groupMapReduce(identity)(_ => 1)(_ + _)
    def find(plan: LogicalPlan): Seq[LogicalPlan] = (JoinTree.top(plan), plan) match {
      case (None, _) => Nil
      case (_, join @ Join(left, right, LeftSemi, _, _)) =>
        if (JoinTree.columns(right).exists(columns(_) > 1)) find(left) :+ right
        else JoinTree.below(join).flatMap(find)
      case (_, join: Join) => JoinTree.below(join).flatMap(find)
      case (_, above) => above.children.flatMap(find)
    }
    if (columns.values.forall(_ == 1)) Nil else find(top)
  }

  /** Whether this is a relation of the tree though there are joins in it. */
  def isApart(plan: LogicalPlan): Boolean = apart.exists(_ eq plan)

  /** The topmost join of a part of the tree; None of a relation. */
  def topOf(plan: LogicalPlan): Option[Join] = if (isApart(plan)) None else JoinTree.top(plan)

  def joins: Seq[Join] = joins(top)

  private def joins(plan: LogicalPlan): Seq[Join] = (topOf(plan), plan) match {
    case (None, _) => Nil
    case (_, join: Join) => join +: JoinTree.below(join).flatMap(joins)
    case (_, above) => above.children.flatMap(joins)
  }

  /** The relation of a part of the tree that yields the columns. */
  def relationOf(part: LogicalPlan, columns: AttributeSet): Option[LogicalPlan] = (topOf(part), part) match {
    case (None, relation) => Option.when(columns.subsetOf(relation.outputSet))(relation)
    case (_, join: Join) => JoinTree.below(join).flatMap(relationOf(_, columns)).headOption
    case (_, above) => relationOf(above.children.head, columns)
  }

  /**
   * A part of the tree with one of its relations, the one that yields the columns, replaced.
   *
   * @return
   *   None where none does, or `change` says None
   */
  def changeRelation(part: LogicalPlan, columns: AttributeSet)(
      change: LogicalPlan => Option[LogicalPlan]
  ): Option[LogicalPlan] = (topOf(part), part) match {
    case (None, relation) => Option.when(columns.subsetOf(relation.outputSet))(relation).flatMap(change)
    case (_, join: Join) =>
      changeRelation(join.left, columns)(change)
        .map(changed => join.copy(left = changed))
        .orElse(
          JoinTree
            .below(join)
            .lift(1)
            .flatMap(changeRelation(_, columns)(change))
            .map(changed => join.copy(right = changed))
        )
    case (_, above) =>
      changeRelation(above.children.head, columns)(change).map(changed => above.withNewChildren(Seq(changed)))
  }
}

private[join] object JoinTree {

  /** The join at the top of the tree that a plan is part of; None where there is none. */
  def top(plan: LogicalPlan): Option[Join] = plan match {
    case join: Join if isPartOfTree(join) => Some(join)
    case Filter(condition, child) if condition.deterministic => top(child)
    case Project(columns, child) if columns.forall(_.deterministic) => top(child)
    // Without columns to group by there is a row of it even where no row below contributes.
    case grouping: Aggregate if grouping.groupingExpressions.nonEmpty && grouping.deterministic => top(grouping.child)
    case _ => None
  }

  private def isPartOfTree(join: Join): Boolean = join.condition.forall(_.deterministic) && (join.joinType match {
    case _: InnerLike | LeftSemi | LeftOuter | RightOuter | LeftAnti | ExistenceJoin(_) => true
    case _ => false
  })

  /** The sides of a join that are parts of the tree it is in. */
  private def below(join: Join): Seq[LogicalPlan] = join.joinType match {
    case LeftAnti | ExistenceJoin(_) => Seq(join.left)
    case _ => join.children
  }

  private def columns(plan: LogicalPlan): Seq[ExprId] = plan.collectLeaves().flatMap(_.output.map(_.exprId))
}
