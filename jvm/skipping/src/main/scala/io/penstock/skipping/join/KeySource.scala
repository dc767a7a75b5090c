package io.penstock.skipping.join

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
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

  def estimate(bytes: ExpectedBytes): Benefit.Estimate =
    Benefit.Estimate(KeySource.tables(plan), bytes(plan), restricted, Repeatable(plan), broadcast)
}

private[join] object KeySource {

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
}
