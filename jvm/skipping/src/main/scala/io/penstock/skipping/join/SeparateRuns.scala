package io.penstock.skipping.join

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{And, EqualTo, Expression}
import org.apache.spark.sql.catalyst.optimizer.ColumnPruning
import org.apache.spark.sql.catalyst.plans.LeftSemi
import org.apache.spark.sql.catalyst.plans.logical._

/**
 * Plans of their own for keys, to be run beside the query.
 *
 * @param skipping
 *   has the files of such a plan skipped by its own joins
 * @param limit
 *   the most bytes that one may read
 * @param transitive
 *   whether a relation is restricted through its neighbours at all
 */
private[join] class SeparateRuns(
    graph: JoinGraph,
    bytes: ExpectedBytes,
    skipping: LogicalPlan => LogicalPlan,
    limit: BigInt,
    transitive: Boolean
) {

  import SeparateRuns._

  private val made = mutable.HashMap.empty[(Int, Int), Option[LogicalPlan]]

  /**
   * The key's relation, where nothing in it filters semi-joined with those of its neighbours that are filtered. None
   * where nothing near it filters, or where it would read too much.
   *
   * @param target
   *   the relation the keys are for; it takes no part
   */
  def source(key: Key, target: Int): Option[KeySource] =
    made
      .getOrElseUpdate((key.relation, target), restrict(key.relation, Set(target), if (transitive) MostHops else 0))
      .map { plan =>
        val columns = plan.output.filter(key.expression.references.contains)
        KeySource(ColumnPruning(Project(columns, plan)), Seq(key.expression), 0, restricted = true, broadcast = false)
      }

  private def restrict(relation: Int, visited: Set[Int], hops: Int): Option[LogicalPlan] = {
    val plan = graph.relations(relation)
    if (!Repeatable(plan)) None
    else if (Restricted(plan)) Some(plan).filter(bytes(_) <= limit)
    else if (hops == 0) None
    else {
      val seen = visited + relation
      val restricted = graph.neighbours(relation).filterNot(neighbour => seen(neighbour._1)).foldLeft(plan) {
        case (sofar, (neighbour, pairs)) =>
          restrict(neighbour, seen, hops - 1).fold(sofar) { helper =>
            val condition = pairs.map[Expression] { case (theirs, ours) => EqualTo(ours.expression, theirs.expression) }
            Join(sofar, helper, LeftSemi, Some(condition.reduce(And(_, _))), JoinHint.NONE)
          }
      }
      // What it reads itself is skipped by the same keys: a large table of which little is left is a small one.
      Option.when(restricted ne plan)(skipping(restricted)).filter(bytes(_) <= limit)
    }
  }
}

private object SeparateRuns {

  // Through more than one further table, a guess about what filters is a guess about guesses.
  private val MostHops = 1
}
