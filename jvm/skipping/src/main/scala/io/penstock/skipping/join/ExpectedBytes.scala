package io.penstock.skipping.join

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}

import io.penstock.skipping.filter.{FileFilter, StaticFilters}
import io.penstock.skipping.index.TableIndex

/**
 * The bytes of files that a run of a plan is expected to read: of each table what its own filters leave, by literals
 * and by keys of joins. A guess from the indexes and from Spark's statistics; what neither knows is counted whole.
 */
private[join] class ExpectedBytes(indexOf: LogicalRelation => Option[TableIndex], caseSensitive: Boolean)
    extends PredicateHelper {

  import ExpectedBytes._

  // The same tables are asked for by each of their keys, and an index may be large.
  private val selected = mutable.HashMap.empty[Expression, Double]

  def apply(plan: LogicalPlan): BigInt = plan match {
    case Filter(condition, relation: LogicalRelation) =>
      (BigDecimal(whole(relation)) * share(relation, condition)).toBigInt
    case relation: LogicalRelation => whole(relation)
    case leaf if leaf.children.isEmpty => leaf.stats.sizeInBytes
    case other => other.children.map(apply).sum
  }

  // Not the plan's statistics: those say what the rows would take in memory, with all their columns.
  private def whole(relation: LogicalRelation): BigInt = relation.relation match {
    case files: HadoopFsRelation =>
      relation.catalogTable.flatMap(_.stats).fold(BigInt(files.location.sizeInBytes))(_.sizeInBytes)
    case _ => relation.stats.sizeInBytes
  }

  /** Of the table's files. The filter that leaves the least counts alone: two may well leave out the same files. */
  private def share(relation: LogicalRelation, condition: Expression): Double =
    indexOf(relation).fold(1.0) { index =>
      val (dynamic, others) = splitConjunctivePredicates(condition).partition(_.isInstanceOf[DynamicPruningSubquery])
      val byValues = others.reduceOption(And).map(all => selected.getOrElseUpdate(all, shareWithValues(index, others)))
      val byKeys = dynamic.collect { case filter: DynamicPruningSubquery => shareWithKeys(relation, index, filter) }
      (byValues ++ byKeys).minOption.getOrElse(1.0)
    }

  private def shareWithValues(index: TableIndex, filters: Seq[Expression]): Double =
    new StaticFilters(index.columns, caseSensitive).translate(filters) match {
      case FileFilter.Anything => 1.0
      case filter => index.select(filter).cardinality.toDouble / math.max(1, index.files)
    }

  private def shareWithKeys(relation: LogicalRelation, index: TableIndex, filter: DynamicPruningSubquery): Double = {
    val known = for {
      column <- DynamicFilter.column(filter.pruningKey)
      filesPerKey <- index.column(column.name).map(_.filesPerKey)
      keys <- filter.broadcastKeyIndices.headOption.flatMap(i => distinct(filter.buildQuery, filter.buildKeys(i)))
    } yield sharePerKeys(keys, distinct(relation, column), filesPerKey)
    known.getOrElse(1.0)
  }

  private def distinct(plan: LogicalPlan, key: Expression): Option[BigInt] = {
    val statistics = plan.stats
    val values = DynamicFilter.column(key).flatMap(statistics.attributeStats.get).flatMap(_.distinctCount)
    (values ++ statistics.rowCount).minOption
  }
}

private[join] object ExpectedBytes {

  /**
   * The share of files that hold one of so many keys.
   *
   * @param distinct
   *   values of the column. The keys are taken for neighbours where it is known, as the days of a month are; else for
   *   values far apart
   * @param filesPerKey
   *   the share, 0 to 1, that holds one key
   */
  def sharePerKeys(keys: BigInt, distinct: Option[BigInt], filesPerKey: Double): Double = {
    val apart = keys.toDouble * filesPerKey
    val together = distinct.filter(_ > 0).map(values => (BigDecimal(keys) / BigDecimal(values)).toDouble + filesPerKey)
    (together ++ Seq(apart, 1.0)).min
  }
}
