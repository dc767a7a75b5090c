package io.penstock.skipping.join

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.optimizer.{BuildLeft, BuildRight, BuildSide, JoinSelectionHelper}
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.internal.SQLConf

/** A join of which Spark will likely broadcast one side, `build`. */
private[join] case class Broadcast(join: Join, side: BuildSide) {

  def build: LogicalPlan = if (side == BuildLeft) join.left else join.right

  def other: LogicalPlan = if (side == BuildLeft) join.right else join.left

  /** The keys that the join compares by `=`, of `build` and of the other side. */
  def equalities: Seq[(Expression, Expression)] = {
    val pairs = JoinGraph.equalities(join)
    if (side == BuildLeft) pairs else pairs.map(_.swap)
  }

  /** As a source of one of the keys of `build`. */
  def source(key: Expression): Option[KeySource] = join match {
    // All the keys, in Spark's order: the broadcast is found again by them.
    case ExtractEquiJoinKeys(_, lefts, rights, _, _, _, _, _) =>
      val keys = if (side == BuildLeft) lefts else rights
      val index = keys.indexWhere(_.semanticEquals(key))
      Option.when(index >= 0)(KeySource(build, keys, index, Restricted(build), broadcast = true))
    case _ => None
  }

  def withBuild(plan: LogicalPlan): Broadcast =
    copy(if (side == BuildLeft) join.copy(left = plan) else join.copy(right = plan))

  def withOther(plan: LogicalPlan): Broadcast =
    copy(if (side == BuildLeft) join.copy(right = plan) else join.copy(left = plan))
}

private[join] object Broadcast extends JoinSelectionHelper {

  /** By its hints or its estimated sizes, as Spark itself decides; where both sides would do, the smaller one. */
  def of(join: Join, conf: SQLConf): Option[Broadcast] = {
    val (hintedLeft, hintedRight) = (hintToBroadcastLeft(join.hint), hintToBroadcastRight(join.hint))
    def bySize(side: LogicalPlan, refused: Boolean) =
      !hintedLeft && !hintedRight && !refused && canBroadcastBySize(side, conf)
    val left = canBuildBroadcastLeft(join.joinType) &&
      (hintedLeft || bySize(join.left, hintToNotBroadcastLeft(join.hint)))
    val right = canBuildBroadcastRight(join.joinType) &&
      (hintedRight || bySize(join.right, hintToNotBroadcastRight(join.hint)))
    val rightIsSmaller = join.right.stats.sizeInBytes <= join.left.stats.sizeInBytes
    if (right && (!left || rightIsSmaller)) Some(Broadcast(join, BuildRight))
    else Option.when(left)(Broadcast(join, BuildLeft))
  }
}
