package io.penstock.skipping.join

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, Filter, Join, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.plans.{ExistenceJoin, InnerLike, LeftAnti, LeftOuter, LeftSemi, RightOuter}

/**
 * A tree of joins with only filters, projections and groupings between them. The plans below are its relations.
 * Immutable.
 */
private[join] class JoinTree(val top: Join) {

  /**
   * Right sides of semi joins with columns that occur elsewhere in the tree, too: for `a IN (…)` and `a = b` Spark
   * makes two semi joins with the same plan. Each is one relation here, and has a tree of its own, since a column that
   * occurs twice would be ambiguous. The joins above see only the columns that it yields.
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

  /** Whether this is a relation of the tree although it contains joins. */
  def isApart(plan: LogicalPlan): Boolean = apart.exists(_ eq plan)

  /** The topmost join of a part of the tree; None for a relation. */
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
   * Replace the relation that yields the columns in a part of the tree.
   *
   * @return
   *   None where no relation does, or `change` returns None
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

  /** The topmost join of a plan, if it is a tree of joins. */
  def top(plan: LogicalPlan): Option[Join] = plan match {
    case join: Join if isPartOfTree(join) => Some(join)
    case Filter(condition, child) if condition.deterministic => top(child)
    case Project(columns, child) if columns.forall(_.deterministic) => top(child)
    // A grouping without columns yields a row even where no row below contributes.
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

/** An expression over the columns of one relation of a [[JoinGraph]]. */
private[join] case class Key(relation: Int, expression: Expression) {
  def same(other: Key): Boolean = relation == other.relation && expression.semanticEquals(other.expression)
}

/**
 * The relations of a [[JoinTree]], and the rows of one that need rows of another. Immutable.
 *
 * An edge from `a` to `b` states: a row of `b`'s relation contributes to the tree's rows only together with a row of
 * `a`'s relation that contributes too, and in these two `a = b` is true. So rows of `b` that no row of `a` equals may
 * be left out, and edges may be followed one after the other. An inner or left semi join gives edges in both
 * directions, an outer join only from the preserved side to the other one: a preserved row contributes without a
 * partner.
 *
 * The joins above do not see the columns of an outer join's null-supplying side and of a semi join's right side: these
 * have edges of their own join alone.
 *
 * A grouping between two joins is part of the tree: no row of a group that contributes nothing does, so a condition on
 * a grouping column holds for the rows, too. Its other columns belong to no relation.
 */
private[join] class JoinGraph private (
    val relations: IndexedSeq[LogicalPlan],
    edges: Seq[(Key, Key)],
    names: JoinGraph.Names
) {

  private val attributes: IndexedSeq[AttributeSet] = relations.map(_.outputSet)

  /** The key of an expression over columns by any of their names in the tree; a key has its relation's own columns. */
  def key(expression: Expression): Option[Key] = {
    val own = names.resolve(expression)
    val references = own.references
    val relation = attributes.indexWhere(references.subsetOf)
    Option.when(relation >= 0 && references.nonEmpty)(Key(relation, own))
  }

  /** The keys that the values of this one restrict, the nearest first; `further` follows more than one edge. */
  def restrictedBy(key: Key, further: Boolean): Seq[Key] = reach(key, further, edge => edge)

  /** The keys whose values restrict this one, the nearest first; `further` follows more than one edge. */
  def restricting(key: Key, further: Boolean): Seq[Key] = reach(key, further, _.swap)

  /** By each neighbour that the relation's rows need a row of: the pairs of its key and the relation's. */
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

  def of(tree: JoinTree): JoinGraph = {
    val builder = new Builder(tree)
    builder.visit(tree.top)
    val columns = builder.relations.toSeq.flatMap(_.outputSet.toSeq.map(_.exprId)) ++ builder.names.all
    // A column that occurs twice would be ambiguous: it gets no edges.
    val ambiguous = columns.diff(columns.distinct).toSet
    def isCertain(key: Key) = !key.expression.references.exists(column => ambiguous(column.exprId))
    val edges = builder.edges.toSeq.filter { case (a, b) => isCertain(a) && isCertain(b) }
    new JoinGraph(builder.relations.toIndexedSeq, edges, builder.names)
  }

  /** The equalities of a join's condition, as pairs of an expression of its left and one of its right side. */
  def equalities(join: Join): Seq[(Expression, Expression)] =
    // The keys that Spark extracts would include `a <=> b` as an equality, which matches nulls.
    join.condition.toSeq.flatMap(splitConjunctivePredicates).collect {
      case EqualTo(a, b) if isOf(a, join.left) && isOf(b, join.right) => (a, b)
      case EqualTo(a, b) if isOf(a, join.right) && isOf(b, join.left) => (b, a)
    }

  private def isOf(expression: Expression, side: LogicalPlan): Boolean =
    expression.deterministic && expression.references.nonEmpty && canEvaluate(expression, side)

  /** The names of relations' columns in projections and groupings. */
  private[join] class Names {
    private val columns = mutable.Map.empty[ExprId, Attribute]
    private val order = mutable.ArrayBuffer.empty[ExprId]

    /** All names, each as often as it occurs. */
    def all: Seq[ExprId] = order.toSeq

    def add(name: Alias, column: Attribute): Unit = {
      order += name.exprId
      columns(name.exprId) = columns.getOrElse(column.exprId, column)
    }

    def resolve(expression: Expression): Expression = expression.transform { case name: Attribute =>
      columns.getOrElse(name.exprId, name)
    }
  }

  private class Builder(tree: JoinTree) {
    val relations: mutable.ArrayBuffer[LogicalPlan] = mutable.ArrayBuffer.empty
    val edges: mutable.ArrayBuffer[(Key, Key)] = mutable.ArrayBuffer.empty
    val names: Names = new Names

    /** Add the edges of a plan and return the relations whose columns the joins above see. */
    def visit(plan: LogicalPlan): Seq[Int] = (tree.topOf(plan), plan) match {
      case (None, relation) =>
        relations += relation
        Seq(relations.size - 1)
      case (_, join: Join) => visitJoin(join)
      case (_, above) =>
        val below = visit(above.children.head)
        columnsOf(above).foreach {
          case alias @ Alias(column: Attribute, _) => names.add(alias, column)
          case _ =>
        }
        below
    }

    private def columnsOf(above: LogicalPlan): Seq[NamedExpression] = above match {
      case Project(columns, _) => columns
      // Columns that are not grouped by are computed.
      case grouping: Aggregate => grouping.aggregateExpressions
      case _ => Nil
    }

    private def visitJoin(join: Join): Seq[Int] = {
      val left = visit(join.left)
      join.joinType match {
        // These test whether left rows have a partner, which restricts neither side.
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

    private def keyAmong(expression: Expression, candidates: Seq[Int]): Option[Key] = {
      val own = names.resolve(expression)
      candidates.find(relation => own.references.subsetOf(relations(relation).outputSet)).map(Key(_, own))
    }
  }
}
