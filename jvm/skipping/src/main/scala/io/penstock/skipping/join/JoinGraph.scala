package io.penstock.skipping.join

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{
  AttributeReference,
  AttributeSet,
  EqualTo,
  Expression,
  PredicateHelper
}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, Join, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.plans.{ExistenceJoin, InnerLike, LeftAnti, LeftOuter, LeftSemi, RightOuter}

/** An expression over the columns of one relation of a [[JoinGraph]]. */
private[join] case class Key(relation: Int, expression: Expression) {
  def same(other: Key): Boolean = relation == other.relation && expression.semanticEquals(other.expression)
}

/**
 * The relations of a tree of joins, and which rows of one need which rows of another.
 *
 * An edge from `a` to `b` states: a row of `b`'s relation contributes to the tree's rows only together with a row of
 * `a`'s relation that contributes too, and in these two `a = b` is true. So rows of `b` that no row of `a` equals may
 * be left out, and edges may be followed one after the other. An inner or left semi join gives edges in both
 * directions, an outer join only from the preserved side to the other one: a preserved row contributes without a
 * partner.
 *
 * The columns of an outer join's null-supplying side, and of a semi join's right side, are not seen by the joins above:
 * they get edges of their own join alone.
 */
private[join] class JoinGraph private (val relations: IndexedSeq[LogicalPlan], edges: Seq[(Key, Key)]) {

  private val attributes: IndexedSeq[AttributeSet] = relations.map(_.outputSet)

  def key(expression: Expression): Option[Key] = {
    val references = expression.references
    val relation = attributes.indexWhere(references.subsetOf)
    Option.when(relation >= 0 && references.nonEmpty)(Key(relation, expression))
  }

  /** Keys that are restricted by the values of this one, the nearest first; of its neighbours alone or also further. */
  def restrictedBy(key: Key, further: Boolean): Seq[Key] = reach(key, further, edge => edge)

  /** Keys whose values restrict this one, the nearest first; of its neighbours alone or also further. */
  def restricting(key: Key, further: Boolean): Seq[Key] = reach(key, further, _.swap)

  /** For each neighbour whose rows the relation's rows need: the pairs of its key and the relation's. */
  def neighbours(relation: Int): Seq[(Int, Seq[(Key, Key)])] =
    edges.filter(_._2.relation == relation).groupBy(_._1.relation).toSeq.sortBy(_._1)

  private def reach(start: Key, further: Boolean, direction: ((Key, Key)) => (Key, Key)): Seq[Key] = {
    val directed = edges.map(direction)
    val reached = mutable.ArrayBuffer(start)
    var next = 0
    while (next < reached.size && (further || next == 0)) {
      val from = reached(next)
      directed.foreach { case (a, b) => if (a.same(from) && !reached.exists(_.same(b))) reached += b }
      next += 1
    }
    reached.drop(1).toSeq
  }
}

private[join] object JoinGraph extends PredicateHelper {

  def of(join: Join): JoinGraph = {
    val builder = new Builder
    builder.visit(join)
    val columns = builder.relations.toSeq.flatMap(_.outputSet.toSeq.map(_.exprId))
    // Should ever a column be found in two relations, nothing said of it could be trusted.
    val edges = if (columns.distinct.size == columns.size) builder.edges.toSeq else Nil
    new JoinGraph(builder.relations.toIndexedSeq, edges)
  }

  /** The joins of the tree below. */
  def joins(tree: LogicalPlan): Seq[Join] = (top(tree), tree) match {
    case (None, _) => Nil
    case (_, join: Join) => join +: treesBelow(join).flatMap(joins)
    case (_, above) => above.children.flatMap(joins)
  }

  private def treesBelow(join: Join): Seq[LogicalPlan] = join.joinType match {
    case LeftAnti | ExistenceJoin(_) => Seq(join.left)
    case _ => join.children
  }

  /** The join at the top of a tree of joins: below nothing but filters and projections that only choose columns. */
  def top(plan: LogicalPlan): Option[Join] = plan match {
    case join: Join if isPartOfTree(join) => Some(join)
    case Filter(condition, child) if condition.deterministic => top(child)
    case Project(columns, child) if columns.forall(_.isInstanceOf[AttributeReference]) => top(child)
    case _ => None
  }

  /**
   * The tree with one of its relations, the one that yields the columns, replaced.
   *
   * @return
   *   None where none does, or `change` says None
   */
  def changeRelation(tree: LogicalPlan, columns: AttributeSet)(
      change: LogicalPlan => Option[LogicalPlan]
  ): Option[LogicalPlan] = (top(tree), tree) match {
    case (None, relation) => Option.when(columns.subsetOf(relation.outputSet))(relation).flatMap(change)
    case (_, join: Join) =>
      changeRelation(join.left, columns)(change)
        .map(changed => join.copy(left = changed))
        .orElse(
          treesBelow(join)
            .lift(1)
            .flatMap(changeRelation(_, columns)(change))
            .map(changed => join.copy(right = changed))
        )
    case (_, above) =>
      changeRelation(above.children.head, columns)(change).map(changed => above.withNewChildren(Seq(changed)))
  }

  /** The equalities of a join's condition, as pairs of an expression of its left and one of its right side. */
  def equalities(join: Join): Seq[(Expression, Expression)] =
    // Of the condition itself: in the keys Spark extracts, `a <=> b` hides as an equality too, and matches nulls.
    join.condition.toSeq.flatMap(splitConjunctivePredicates).collect {
      case EqualTo(a, b) if isOf(a, join.left) && isOf(b, join.right) => (a, b)
      case EqualTo(a, b) if isOf(a, join.right) && isOf(b, join.left) => (b, a)
    }

  private def isOf(expression: Expression, side: LogicalPlan): Boolean =
    expression.deterministic && expression.references.nonEmpty && canEvaluate(expression, side)

  private def isPartOfTree(join: Join): Boolean = join.condition.forall(_.deterministic) && (join.joinType match {
    case _: InnerLike | LeftSemi | LeftOuter | RightOuter | LeftAnti | ExistenceJoin(_) => true
    case _ => false
  })

  private class Builder {
    val relations: mutable.ArrayBuffer[LogicalPlan] = mutable.ArrayBuffer.empty
    val edges: mutable.ArrayBuffer[(Key, Key)] = mutable.ArrayBuffer.empty

    /** The relations whose columns the joins above may speak of. */
    def visit(plan: LogicalPlan): Seq[Int] = top(plan) match {
      case Some(join) => visitJoin(join)
      case None =>
        relations += plan
        Seq(relations.size - 1)
    }

    private def visitJoin(join: Join): Seq[Int] = {
      val left = visit(join.left)
      join.joinType match {
        // Says of its left rows which have no partner, or whether: that restricts neither side.
        case LeftAnti | ExistenceJoin(_) => left
        case kind =>
          val right = visit(join.right)
          val pairs = for {
            (a, b) <- equalities(join)
            from <- keyAmong(a, left)
            to <- keyAmong(b, right)
          } yield (from, to)
          if (kind != RightOuter) edges ++= pairs
          if (kind != LeftOuter) edges ++= pairs.map(_.swap)
          kind match {
            case LeftSemi | LeftOuter => left
            case RightOuter => right
            case _ => left ++ right
          }
      }
    }

    private def keyAmong(expression: Expression, candidates: Seq[Int]): Option[Key] =
      candidates.find(relation => expression.references.subsetOf(relations(relation).outputSet)).map(Key(_, expression))
  }
}
