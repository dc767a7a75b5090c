package io.penstock.skipping.join

import org.apache.spark.sql.catalyst.expressions.{DynamicPruningSubquery, Expression}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.plans.{ExistenceJoin, LeftAnti}
import org.apache.spark.sql.execution.datasources.HadoopFsRelation
import org.apache.spark.sql.internal.SQLConf

import io.penstock.skipping.SkippingSettings
import io.penstock.skipping.index.TableIndex

/**
 * One pass over an optimized plan that filters its file scans by the keys of its joins; see [[JoinSkipping]].
 *
 * A filter by a broadcast holds a copy of the join's side, and Spark finds the broadcast again only while the two are
 * equal. So nothing in a side may change once it was copied: at each join, from the top down, first the side that is
 * broadcast is finished, and then filters go into the other one, before its own joins are looked at.
 */
private[join] class KeysOfJoins(
    plan: LogicalPlan,
    conf: SQLConf,
    indexOf: HadoopFsRelation => Option[TableIndex],
    copies: Copies = Copies.None
) {

  private val settings = new SkippingSettings(conf)
  private val benefit = new Benefit(settings.maxFilesPerKey, settings.secondRunBytes)
  private val scans = new Scans(plan, indexOf, benefit)

  lazy val filtered: LogicalPlan = if (scans.mayBeFiltered(plan)) rewrite(plan, None) else plan

  /** The pass by which copies of one part stay equal where one of them reads what the others would anyway. */
  def leavingCopiesEqual: KeysOfJoins = {
    val found = if (filtered eq plan) Copies.None else Copies.unequal(filtered, conf)
    if (found.isEmpty) this else new KeysOfJoins(plan, conf, indexOf, found)
  }

  private val sidesThatPrune = plan.flatMap(_.expressions.flatMap(_.collect { case filter: DynamicPruningSubquery =>
    filter.buildQuery
  }))

  /** Whether Spark prunes partitions by this broadcast: it too finds it only while nothing changes in it. */
  private def prunesPartitions(build: LogicalPlan): Boolean =
    scans.mayBeFiltered(build) && sidesThatPrune.exists(_.sameResult(build))

  /** Hangs what was decided on the scans of the result, for those who explain it. */
  def record(result: LogicalPlan): Unit = scans.record(result)

  private def rewrite(plan: LogicalPlan, within: Option[FilteredTree]): LogicalPlan = {
    val tree = within.filterNot(_.tree.isApart(plan))
    (JoinTree.top(plan), plan) match {
      case _ if !scans.mayBeFiltered(plan) => plan
      case (None, _) => plan.mapChildren(rewrite(_, None))
      case (_, join: Join) => rewriteJoin(join, tree.getOrElse(filteredTree(join)))
      case (Some(top), _) => plan.mapChildren(rewrite(_, tree.orElse(Some(filteredTree(top)))))
    }
  }

  private def filteredTree(top: Join) = new FilteredTree(new JoinTree(top), scans, benefit, copies, conf, separately)

  /** What is decided about a run beside the query is not about the query's scans. */
  private def separately(plan: LogicalPlan): LogicalPlan = new KeysOfJoins(plan, conf, indexOf).filtered

  private def rewriteJoin(join: Join, tree: FilteredTree): LogicalPlan = join.joinType match {
    case LeftAnti | ExistenceJoin(_) =>
      join.copy(left = rewrite(join.left, Some(tree)), right = rewrite(join.right, None))
    case _ =>
      def finish(side: LogicalPlan, keys: Seq[Expression]) =
        rewrite(keys.foldLeft(side)((plan, key) => tree.fromElsewhere(plan, key)), Some(tree))
      Broadcast.of(join, conf) match {
        case Some(broadcast) =>
          val (buildKeys, otherKeys) = broadcast.equalities.unzip
          val finished =
            if (prunesPartitions(broadcast.build)) broadcast
            else broadcast.withBuild(finish(broadcast.build, buildKeys))
          finished.withOther(finish(tree.fromBroadcast(finished), otherKeys)).join
        case None =>
          val (lefts, rights) = JoinGraph.equalities(join).unzip
          join.copy(left = finish(join.left, lefts), right = finish(join.right, rights))
      }
  }
}
