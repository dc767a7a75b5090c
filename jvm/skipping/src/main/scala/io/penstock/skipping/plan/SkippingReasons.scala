package io.penstock.skipping.plan

import org.apache.spark.sql.catalyst.expressions.{Expression, IsNotNull}
import org.apache.spark.sql.execution.ScalarSubquery

import io.penstock.skipping.filter.{FileFilter, StaticFilters}
import io.penstock.skipping.join.Decision

/** By what a scan's files are skipped, and by what not and why: for people who read its plan. */
private[plan] class SkippingReasons(skippable: SkippableScan, filters: StaticFilters) {

  /** In half sentences. */
  def of(keys: Seq[KeyColumn]): Seq[String] = {
    val filtered = columns(skippable.scan.dataFilters.filter(says))
    val joined = keys.map(_.name).distinct.sorted
    val reasons = Option.when(filtered.nonEmpty)(s"by filters on ${filtered.mkString(", ")}").toSeq ++
      Option.when(joined.nonEmpty)(s"by keys of joins on ${joined.mkString(", ")}") ++
      decisions.map(decision => s"on $decision")
    if (reasons.isEmpty) Seq("nothing to skip files by") else reasons
  }

  // Joins ask for values that are not null, of whatever column: that is next to nothing.
  private def says(filter: Expression): Boolean =
    !filter.isInstanceOf[IsNotNull] &&
      (filter.exists(_.isInstanceOf[ScalarSubquery]) || filters.translate(Seq(filter)) != FileFilter.Anything)

  private def columns(filters: Seq[Expression]): Seq[String] =
    filters
      .flatMap(_.references.map(_.name))
      .filter(name => skippable.index.columns.exists(_.name == name))
      .distinct
      .sorted

  private def decisions: Seq[Decision] =
    skippable.scan.logicalLink.toSeq.flatMap(_.collectLeaves()).flatMap(Decision.of)
}
