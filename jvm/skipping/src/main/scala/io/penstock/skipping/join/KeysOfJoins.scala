package io.penstock.skipping.join

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.{BuildLeft, BuildRight, BuildSide, JoinSelectionHelper}
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.plans.{ExistenceJoin, LeftAnti}
import org.apache.spark.sql.execution.datasources.LogicalRelation
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
private[join] class KeysOfJoins(conf: SQLConf, indexOf: LogicalRelation => Option[TableIndex])
    extends JoinSelectionHelper {

  private val settings = new SkippingSettings(conf)
  private val benefit = new Benefit(settings.maxFilesPerKey, settings.secondRunBytes)
  private val scans = new Scans(indexOf, benefit)

  def filter(plan: LogicalPlan): LogicalPlan = if (scans.areIndexed(plan)) rewrite(plan, None) else plan

  /** Hangs what was decided on the scans of a plan, for those who explain it. */
  def record(plan: LogicalPlan): Unit = scans.record(plan)

  private def rewrite(plan: LogicalPlan, tree: Option[FilteredTree]): LogicalPlan = (JoinGraph.top(plan), plan) match {
    case (None, _) => plan.mapChildren(rewrite(_, None))
    case (_, join: Join) =>
      rewriteJoin(join, tree.getOrElse(new FilteredTree(join, broadcastSide, scans, benefit, settings)))
    case _ => plan.mapChildren(rewrite(_, tree))
  }

  private def rewriteJoin(join: Join, tree: FilteredTree): LogicalPlan = join.joinType match {
    case LeftAnti | ExistenceJoin(_) =>
      join.copy(left = rewrite(join.left, Some(tree)), right = rewrite(join.right, None))
    case _ =>
      val equalities = JoinGraph.equalities(join)
      def ownRuns(side: LogicalPlan, keys: Seq[Expression]) =
        keys.foldLeft(side)((plan, key) => tree.bySecondRun(plan, key))
      val (lefts, rights) = equalities.unzip
      broadcastSide(join) match {
        case Some(BuildRight) =>
          val right = rewrite(ownRuns(join.right, rights), Some(tree))
          val filtered = join.copy(right = right)
          val left = tree.byBroadcast(join.left, right, buildKeys(filtered, BuildRight), rights)
          filtered.copy(left = rewrite(ownRuns(left, lefts), Some(tree)))
        case Some(BuildLeft) =>
          val left = rewrite(ownRuns(join.left, lefts), Some(tree))
          val filtered = join.copy(left = left)
          val right = tree.byBroadcast(join.right, left, buildKeys(filtered, BuildLeft), lefts)
          filtered.copy(right = rewrite(ownRuns(right, rights), Some(tree)))
        case None =>
          join.copy(
            left = rewrite(ownRuns(join.left, lefts), Some(tree)),
            right = rewrite(ownRuns(join.right, rights), Some(tree))
          )
      }
  }

  /** The side Spark will likely broadcast. */
  private def broadcastSide(join: Join): Option[BuildSide] = {
    val hinted = (hintToBroadcastLeft(join.hint), hintToBroadcastRight(join.hint))
    def may(hint: Boolean, otherHint: Boolean, refused: Boolean, side: LogicalPlan) =
      hint || !otherHint && !refused && canBroadcastBySize(side, conf)
    val left = canBuildBroadcastLeft(join.joinType) &&
      may(hinted._1, hinted._2, hintToNotBroadcastLeft(join.hint), join.left)
    val right = canBuildBroadcastRight(join.joinType) &&
      may(hinted._2, hinted._1, hintToNotBroadcastRight(join.hint), join.right)
    if (left && right) Some(if (join.right.stats.sizeInBytes <= join.left.stats.sizeInBytes) BuildRight else BuildLeft)
    else if (left) Some(BuildLeft)
    else Option.when(right)(BuildRight)
  }

  private def buildKeys(join: Join, side: BuildSide): Seq[Expression] = join match {
    case ExtractEquiJoinKeys(_, lefts, rights, _, _, _, _, _) => if (side == BuildLeft) lefts else rights
    case _ => Nil
  }
}
