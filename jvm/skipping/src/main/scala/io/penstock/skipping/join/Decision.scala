package io.penstock.skipping.join

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.TreeNodeTag

/**
 * What was decided about skipping a table's files by the keys of a join.
 *
 * @param column
 *   of the table
 * @param attempted
 *   whether the keys will be used
 * @param reason
 *   where the keys come from, or why they are not used: half a sentence
 */
case class Decision(column: String, attempted: Boolean, reason: String) {
  override def toString: String = s"$column: ${if (attempted) "" else "not attempted: "}$reason"
}

object Decision {

  private val Tag = TreeNodeTag[Seq[Decision]]("io.penstock.skipping.decisions")

  private[join] def record(relation: LogicalPlan, decisions: Seq[Decision]): Unit =
    if (decisions.isEmpty) relation.unsetTagValue(Tag) else relation.setTagValue(Tag, decisions)

  /** The decisions about a relation of an optimized plan; of a physical scan, that in its logical link. */
  def of(relation: LogicalPlan): Seq[Decision] = relation.getTagValue(Tag).getOrElse(Nil)
}
