package io.penstock.skipping.join

import org.apache.spark.sql.catalyst.expressions.{DynamicPruningSubquery, ExprId, Expression}
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, Filter, Join, LogicalPlan}
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.internal.SQLConf

/**
 * Parts that are exchanged and in a plan more than once: groupings and sides of joins. Spark computes the first of them
 * and reuses its exchange for the others as long as they are equal, which filters must leave them.
 *
 * @param common
 *   for each scan below such parts, the filters that all copies of each are to have, and no others; and which of the
 *   part's leaves it is
 */
private[join] class Copies(common: Map[Copies.Scan, Seq[(Int, Set[Copies.KeyFilter])]]) {
  import Copies._

  def isEmpty: Boolean = common.isEmpty

  /** Whether the filter, as it was placed in a plan, is one that all copies have. */
  def allow(filter: DynamicPruningSubquery, placed: LogicalPlan): Boolean = isEmpty || filters(placed).forall {
    case (relation, found) =>
      found.exprId != filter.exprId || common.getOrElse(scan(relation), Nil).forall { case (leaf, allowed) =>
        allowed(KeyFilter.of(leaf, found))
      }
  }
}

private[join] object Copies {

  /** A scan by the columns it has, which no other has. */
  type Scan = Seq[ExprId]

  val None = new Copies(Map.empty)

  /**
   * Those of which one copy has in `filtered` only such filters as all the others have, too, and another has more: what
   * the first reads, the other could have had for nothing. (q64 of TPC-DS read a third more of a table.)
   */
  def unequal(filtered: LogicalPlan, conf: SQLConf): Copies = {
    val parts = filtered.collect {
      case grouping: Aggregate => Seq(grouping -> Nil)
      case join: Join => sides(join, conf)
    }.flatten
    val equal = parts.groupMap { case (part, keys) => (DynamicFilter.strip(part).canonicalized, keys) }(_._1)
    val limits = for {
      copies <- equal.values.toSeq if copies.size > 1
      kept = copies.map(KeyFilter.in)
      least <- kept.find(few => kept.forall(few.subsetOf)).toSeq if kept.exists(_ != least)
      copy <- copies
      (relation: LogicalRelation, leaf) <- copy.collectLeaves().zipWithIndex
    } yield scan(relation) -> (leaf, least)
    new Copies(limits.groupMap(_._1)(_._2))
  }

  /** Those that are exchanged, each with the keys by which it is: both, or the one that is broadcast. */
  private def sides(join: Join, conf: SQLConf): Seq[(LogicalPlan, Seq[Expression])] = {
    val (lefts, rights) = JoinGraph.equalities(join).unzip
    val exchanged = Broadcast.of(join, conf).map(_.build)
    Seq(join.left -> lefts, join.right -> rights).collect {
      case (side, keys) if keys.nonEmpty && exchanged.forall(_ eq side) => side -> normalized(keys, side)
    }
  }

  private def normalized(keys: Seq[Expression], plan: LogicalPlan): Seq[Expression] =
    keys.map(QueryPlan.normalizeExpressions(_, plan.output))

  /**
   * A filter, told without the names that each copy has of its own.
   *
   * @param leaf
   *   of the part, whose files it filters
   * @param build
   *   what has the keys
   */
  case class KeyFilter(leaf: Int, column: Option[String], build: LogicalPlan, keys: Seq[Expression])

  private object KeyFilter {

    def of(leaf: Int, filter: DynamicPruningSubquery): KeyFilter = {
      val build = filter.buildQuery
      val keys = filter.broadcastKeyIndices.map(filter.buildKeys)
      val column = DynamicFilter.column(filter.pruningKey).map(_.name)
      KeyFilter(leaf, column, build.canonicalized, normalized(keys, build))
    }

    def in(part: LogicalPlan): Set[KeyFilter] = {
      val leaves = part.collectLeaves()
      filters(part).map { case (relation, filter) => of(leaves.indexWhere(_ eq relation), filter) }.toSet
    }
  }

  private def filters(plan: LogicalPlan): Seq[(LogicalRelation, DynamicPruningSubquery)] = plan.collect {
    case Filter(condition, relation: LogicalRelation) =>
      condition.collect { case filter: DynamicPruningSubquery => relation -> filter }
  }.flatten

  private def scan(relation: LogicalRelation): Scan = relation.output.map(_.exprId)
}
