package io.penstock.skipping.join

import org.apache.spark.sql.catalyst.expressions.{And, EqualTo, Expression}
import org.apache.spark.sql.catalyst.optimizer.ColumnPruning
import org.apache.spark.sql.catalyst.plans.LeftSemi
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}

/**
 * A plan whose rows hold every key that matters.
 *
 * @param keys
 *   of the join this plan is one side of, in the join's order, or only the key asked for
 * @param index
 *   which of `keys` is asked for
 * @param restricted
 *   likely to hold but a part of all keys
 * @param broadcast
 *   the side of a join that Spark will likely broadcast: its keys are there for nothing
 */
private[join] case class KeySource(
    plan: LogicalPlan,
    keys: Seq[Expression],
    index: Int,
    restricted: Boolean,
    broadcast: Boolean
) {

  def key: Expression = keys(index)

  /** For people. */
  def description: String = s"keys of ${KeySource.tables(plan)}${if (broadcast) "" else ", run for it"}"

  def estimate: Benefit.Estimate =
    Benefit.Estimate(KeySource.tables(plan), KeySource.bytes(plan), restricted, Repeatable(plan), broadcast)
}

private[join] object KeySource {

  /** Bytes of the files that a run of the plan reads from. */
  def bytes(plan: LogicalPlan): BigInt = plan
    .collectLeaves()
    .map {
      // Not the plan's statistics: those say what the rows would take in memory, with all their columns.
      case LogicalRelation(files: HadoopFsRelation, _, table, _, _) =>
        table.flatMap(_.stats).fold(BigInt(files.location.sizeInBytes))(_.sizeInBytes)
      case other => other.stats.sizeInBytes
    }
    .sum

  private def tables(plan: LogicalPlan): String = plan.collectLeaves().map(name).distinct.mkString(", ")

  private def name(leaf: LogicalPlan): String = leaf match {
    case relation: LogicalRelation =>
      relation.catalogTable
        .map(_.identifier.table)
        .getOrElse(relation.relation match {
          case files: HadoopFsRelation => files.location.rootPaths.headOption.fold("files")(_.getName)
          case other => other.toString
        })
    case other => other.nodeName
  }

  // Through more than one further table, a guess about what filters is a guess about guesses.
  private val MostHops = 1

  /**
   * A plan of its own for the key, to be run beside the query: the key's relation, where nothing in it filters
   * semi-joined with those of its neighbours that are filtered. None where nothing near it filters, or where it would
   * read more than `limit` bytes.
   *
   * @param target
   *   the relation the keys are for; it takes no part
   * @param transitive
   *   whether neighbours are asked at all
   */
  def separate(graph: JoinGraph, key: Key, target: Int, limit: BigInt, transitive: Boolean): Option[KeySource] =
    restrict(graph, key.relation, Set(target), if (transitive) MostHops else 0, limit).map { plan =>
      val columns = plan.output.filter(key.expression.references.contains)
      KeySource(ColumnPruning(Project(columns, plan)), Seq(key.expression), 0, restricted = true, broadcast = false)
    }

  private def restrict(
      graph: JoinGraph,
      relation: Int,
      visited: Set[Int],
      hops: Int,
      limit: BigInt
  ): Option[LogicalPlan] = {
    val plan = graph.relations(relation)
    val seen = visited + relation
    if (!Repeatable(plan) || bytes(plan) > limit) None
    else if (Restricted(plan)) Some(plan)
    else if (hops == 0) None
    else {
      val restricted = graph.neighbours(relation).filterNot(neighbour => seen(neighbour._1)).foldLeft(plan) {
        case (sofar, (neighbour, pairs)) =>
          restrict(graph, neighbour, seen, hops - 1, limit - bytes(sofar)).fold(sofar) { helper =>
            val condition = pairs.map[Expression] { case (theirs, ours) => EqualTo(ours.expression, theirs.expression) }
            Join(sofar, helper, LeftSemi, Some(condition.reduce(And(_, _))), JoinHint.NONE)
          }
      }
      Option.when(restricted ne plan)(restricted)
    }
  }
}
