package io.penstock.skipping.join

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.Count
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.types.{BooleanType, IntegerType}
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.fuzz.Dice

class JoinGraphTest extends AnyFunSuite {

  import PlanModel.{join, relation}

  private val facts = relation("day", "item")
  private val days = relation("d", "week")
  private val others = relation("o", "w")
  private val (day, item) = (facts.output.head, facts.output.last)
  private val (d, week) = (days.output.head, days.output.last)
  private val (o, w) = (others.output.head, others.output.last)

  private def tree(plan: LogicalPlan): JoinTree = new JoinTree(JoinTree.top(plan).get)

  private def graph(plan: LogicalPlan): JoinGraph = JoinGraph.of(tree(plan))

  /** The columns that the values of this one restrict. */
  private def restricted(plan: LogicalPlan, by: Attribute, further: Boolean = true): Seq[String] = {
    val found = graph(plan)
    found.key(by).toSeq.flatMap(found.restrictedBy(_, further)).map(_.expression.toString.takeWhile(_ != '#'))
  }

  private def onDay(kind: JoinType): Join = join(facts, days, kind)(EqualTo(day, d))

  test("the sides of an inner join restrict each other, and so do those of a semi join") {
    for (kind <- Seq(Inner, LeftSemi)) {
      assert(restricted(onDay(kind), by = d) === Seq("day"))
      assert(restricted(onDay(kind), by = day) === Seq("d"))
    }
  }

  test("the preserved side of an outer join restricts the other one, and not the other way round") {
    assert(restricted(onDay(LeftOuter), by = day) === Seq("d"))
    assert(restricted(onDay(LeftOuter), by = d) === Nil)
    assert(restricted(onDay(RightOuter), by = day) === Nil)
    assert(restricted(onDay(RightOuter), by = d) === Seq("day"))
  }

  test("an anti join says nothing of either side, and neither does whether a partner exists") {
    val exists = ExistenceJoin(AttributeReference("exists", BooleanType)())
    for (kind <- Seq(LeftAnti, exists)) {
      assert(restricted(onDay(kind), by = d) === Nil)
      assert(restricted(onDay(kind), by = day) === Nil)
      assert(graph(onDay(kind)).relations === Seq(facts))
    }
  }

  test("a full outer join is no part of a tree") {
    assert(JoinTree.top(onDay(FullOuter)).isEmpty)
  }

  test("only what is equal counts: neither a null-safe equality nor a comparison") {
    assert(restricted(join(facts, days, Inner)(EqualNullSafe(day, d)), by = d) === Nil)
    assert(restricted(join(facts, days, Inner)(LessThanOrEqual(day, d)), by = d) === Nil)
    assert(restricted(join(facts, days, Inner)(EqualTo(day, d), LessThan(item, week)), by = week) === Nil)
  }

  test("edges are followed one after the other, the nearest first, or only one of them") {
    val chain = join(onDay(Inner), others, Inner)(EqualTo(d, o))
    assert(restricted(chain, by = o) === Seq("d", "day"))
    assert(restricted(chain, by = o, further = false) === Seq("d"))
  }

  test("another column of the same table is not restricted by this one") {
    assert(restricted(join(onDay(Inner), others, Inner)(EqualTo(week, w)), by = w) === Seq("week"))
  }

  test("what an outer join may fill with nulls, the joins above do not restrict") {
    val above = join(onDay(LeftOuter), others, Inner)(EqualTo(d, o))
    assert(restricted(above, by = o) === Nil)
    assert(restricted(above, by = day) === Seq("d"))
  }

  test("a projection's names stand for the columns they name") {
    val named = Alias(day, "called")()
    val chain = join(Project(Seq(named, item), facts), days, Inner)(EqualTo(named.toAttribute, d))
    assert(restricted(chain, by = d) === Seq("called"), "where no join is below, it is part of the relation")
    val project = Project(Seq(Alias(d, "called")()), onDay(Inner))
    val tree = join(project, others, Inner)(EqualTo(project.output.head, o))
    assert(restricted(tree, by = o) === Seq("d", "day"))
  }

  private def grouped(by: Seq[Attribute], below: LogicalPlan): Aggregate = {
    val count = Alias(Count(Seq(Literal(1))).toAggregateExpression(), "count")()
    Aggregate(by, by :+ count, below)
  }

  test("what is asked of a column that rows are grouped by is asked of the rows") {
    val weeks = grouped(Seq(week), onDay(Inner))
    assert(restricted(join(weeks, others, Inner)(EqualTo(week, w)), by = w) === Seq("week"))
    val days = grouped(Seq(d), onDay(Inner))
    assert(restricted(join(days, others, Inner)(EqualTo(d, o)), by = o) === Seq("d", "day"))
  }

  test("what is calculated of groups is no relation's column") {
    val weeks = grouped(Seq(week), onDay(Inner))
    assert(restricted(join(weeks, others, Inner)(EqualTo(weeks.output.last, w)), by = w) === Nil)
  }

  test("a grouping of all rows into one is a relation: it has a row also where nothing is left") {
    val all = grouped(Nil, onDay(Inner))
    assert(graph(join(all, others, Inner)(EqualTo(all.output.last, o))).relations === Seq(all, others))
  }

  test("a column that is found in two relations says nothing, and the others still do") {
    val tree = join(join(facts, days, Inner)(EqualTo(day, d)), days, Inner)(EqualTo(item, week))
    assert(restricted(tree, by = day) === Nil)
    assert(restricted(join(onDay(Inner), Project(Seq(o), others), Inner)(EqualTo(item, o)), by = o) === Seq("item"))
  }

  test("a relation is replaced where its column is found, and nothing else changes") {
    val plan = join(grouped(Seq(d), onDay(Inner)), others, Inner)(EqualTo(d, o))
    val changed = tree(plan).changeRelation(plan, AttributeSet(day))(relation => Some(Filter(IsNotNull(day), relation)))
    assert(changed === Some(plan.transformUp { case `facts` => Filter(IsNotNull(day), facts) }))
    assert(tree(plan).changeRelation(plan, AttributeSet(day))(_ => None) === None)
  }

  test("what two semi joins have on their right is a relation of each, and a tree of its own") {
    val asked = Project(Seq(d), join(days, others, Inner)(EqualTo(week, w)))
    val more = relation("i")
    val i = more.output.head
    val plan =
      join(join(facts, asked, LeftSemi)(EqualTo(day, d)), join(more, asked, LeftSemi)(EqualTo(i, d)), Inner)(
        EqualTo(day, i)
      )
    assert(graph(plan).relations === Seq(facts, asked, more, asked))
    assert(restricted(plan, by = w) === Nil)
    assert(restricted(plan, by = i) === Seq("day"))
    assert(tree(plan).isApart(asked) && restricted(asked, by = w) === Seq("week"))
    assert(!tree(join(facts, asked, LeftSemi)(EqualTo(day, d))).isApart(asked))
  }

  test("whatever rows the edges say may go, the answer of a random tree stays the same") {
    var reached, dropped, apart = 0
    for (seed <- 1 to 3000) {
      val plan = new PlanModel(new Dice(seed)).tree
      for (top <- JoinTree.top(plan)) {
        val tree = new JoinTree(top)
        val found = JoinGraph.of(tree)
        val expected = PlanModel.answer(plan)
        val restrictions = for {
          column <- found.relations.flatMap(_.output)
          key <- found.key(column).toSeq
          target <- found.restrictedBy(key, further = true)
        } yield target -> PlanModel.values(found.relations(key.relation), column)
        val less = restrictions.foldLeft(plan) { case (sofar, (target, values)) =>
          val condition = In(target.expression, values.map(Literal(_)))
          tree.changeRelation(sofar, target.expression.references)(r => Some(Filter(condition, r))).get
        }
        reached += restrictions.size
        if (tree.joins.exists(_.children.exists(tree.isApart))) apart += 1
        if (PlanModel.rowsBelow(less) < PlanModel.rowsBelow(plan)) dropped += 1
        assert(PlanModel.answer(less) === expected, s"seed $seed:\n$plan\n$less")
      }
    }
    assert(reached > 3000 && dropped > 300 && apart > 30, "or nothing was asked")
  }
}

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
