package io.penstock.skipping.history

import scala.util.Try

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.{BuildLeft, BuildRight}
import org.apache.spark.sql.catalyst.plans.{Inner, JoinType, LeftSemi}
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanHelper, QueryStageExec}
import org.apache.spark.sql.execution.exchange.{BroadcastExchangeExec, ReusedExchangeExec}
import org.apache.spark.sql.execution.joins.{BroadcastHashJoinExec, ShuffledJoin}
import org.apache.spark.sql.execution.penstock.BroadcastKeys

import io.penstock.skipping.filter.{Encoding, Keys}

/**
 * The keys that the joins of a query which was run have asked of the columns of its scans: whether or not files were
 * skipped by them, since advice is about those that could have been. Of a side that was broadcast the keys are still at
 * the driver; those of shuffled sides never were.
 */
private[history] class JoinKeys(mostIntervals: Int) extends AdaptiveSparkPlanHelper {

  import JoinKeys._

  def of(plan: SparkPlan): Seq[(Attribute, Option[Keys])] = collectWithSubqueries(plan) {
    case join: BroadcastHashJoinExec if drops(join.joinType) =>
      val (built, builtKeys, streamed, streamedKeys) = join.buildSide match {
        case BuildLeft => (join.left, join.leftKeys, join.right, join.rightKeys)
        case BuildRight => (join.right, join.rightKeys, join.left, join.leftKeys)
      }
      for {
        (key, place) <- streamedKeys.zipWithIndex
        column <- scanned(key, streamed)
      } yield column -> broadcast(built).flatMap(read(_, builtKeys, place, column))
    case join: ShuffledJoin if drops(join.joinType) =>
      for {
        (left, right) <- join.leftKeys.zip(join.rightKeys)
        column <- scanned(left, join.left) ++ scanned(right, join.right)
      } yield column -> None
  }.flatten

  /** Whether rows of either side, or of the left one, that find no partner are dropped. */
  private def drops(kind: JoinType): Boolean = kind == Inner || kind == LeftSemi

  /** The column of a scan below that has the values of this key. */
  private def scanned(key: Expression, below: SparkPlan): Option[Attribute] = key match {
    case cast: Cast if Encoding.isLossless(cast.child.dataType, cast.dataType) => scanned(cast.child, below)
    case attribute: Attribute =>
      val renamed = collectFirst(below) {
        case project: ProjectExec if project.projectList.exists(isAlias(_, attribute)) =>
          project.projectList.collectFirst { case alias: Alias if isAlias(alias, attribute) => alias.child }.get
      }
      renamed.fold(collectFirst(below) {
        case scan: FileSourceScanExec if scan.outputSet.contains(attribute) =>
          scan.output.find(_.exprId == attribute.exprId).get
      })(scanned(_, below))
    case _ => None
  }

  private def isAlias(expression: NamedExpression, of: Attribute): Boolean =
    expression.isInstanceOf[Alias] && expression.exprId == of.exprId

  private def broadcast(side: SparkPlan): Option[BroadcastExchangeExec] = side match {
    case adapter: InputAdapter => broadcast(adapter.child)
    case stage: QueryStageExec => broadcast(stage.plan)
    case reused: ReusedExchangeExec => broadcast(reused.child)
    case exchange: BroadcastExchangeExec =>
      // One that never ran would run now.
      val rows = exchange.metrics.get("numOutputRows").fold(0L)(_.value)
      Option.when(rows > 0 && rows <= MostKeys)(exchange)
    case _ => None
  }

  private def read(
      exchange: BroadcastExchangeExec,
      buildKeys: Seq[Expression],
      place: Int,
      column: Attribute
  ): Option[Keys] =
    for {
      encoding <- Encoding.of(buildKeys(place).dataType, column.dataType)
      // Keys that cannot be read any more are unseen ones, and the rest is noted.
      values <- Try(BroadcastKeys.of(exchange, buildKeys, place)).toOption
    } yield encoding.points(values.filter(_ != null)).compressed(mostIntervals)
}

private object JoinKeys {

  /** More are not worth the driver's time. */
  private val MostKeys = 200000L
}
