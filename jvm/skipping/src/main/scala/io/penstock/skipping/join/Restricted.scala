package io.penstock.skipping.join

import org.apache.spark.sql.catalyst.expressions.PredicateHelper
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._

/**
 * Whether a plan likely yields but a part of the keys of its tables: something in it filters. A guess, for its worth.
 */
private[join] object Restricted extends PredicateHelper {

  def apply(plan: LogicalPlan): Boolean = plan match {
    case Filter(condition, child) => isLikelySelective(condition) || apply(child)
    case Join(left, right, kind, _, _) =>
      kind match {
        case _: InnerLike | LeftSemi => apply(left) || apply(right)
        case LeftOuter | LeftAnti | ExistenceJoin(_) => apply(left)
        case RightOuter => apply(right)
        case _ => false
      }
    case union: Union => union.children.forall(apply)
    case _: LocalRelation => true
    case unary: UnaryNode => apply(unary.child)
    case _ => false
  }
}
