package io.penstock.skipping.join

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.Count
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.types.BooleanType
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.fuzz.Dice

class JoinGraphSuite extends AnyFunSuite {

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
