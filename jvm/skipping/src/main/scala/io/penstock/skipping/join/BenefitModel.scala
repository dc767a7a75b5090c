package io.penstock.skipping.join

import java.util.Locale

import scala.collection.mutable

import org.apache.hadoop.util.StringUtils.TraditionalBinaryPrefix
import org.apache.spark.sql.catalyst.expressions.{And, DynamicPruningSubquery, Expression, PredicateHelper}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}

import io.penstock.skipping.index.{ColumnSummary, TableIndex}
import io.penstock.skipping.model.{FileFilter, FilterTranslator}

/**
 * Whether it is likely to pay to skip a table's files by a join's keys. Pure: only from estimates.
 *
 * @param maxFilesPerKey
 *   a column in whose files a random key is found in more than this share, 0 to 1, is not worth it
 * @param secondRunBytes
 *   the most that a run beside the query may read for its keys
 */
private[join] class BenefitModel(maxFilesPerKey: Double, secondRunBytes: Long) {

  import BenefitModel._

  /** None if files can be skipped by the column, else why not. */
  def refuseColumn(column: Option[ColumnSummary], files: Int): Option[String] = column match {
    case None => Some("the index does not cover it")
    case Some(_) if files < 2 => Some("the table is one file")
    case Some(summary) if summary.filesPerKey > maxFilesPerKey =>
      Some(s"a key is found in ${percent(summary.filesPerKey)} of the files (at most ${percent(maxFilesPerKey)} pays)")
    case Some(_) => None
  }

  /** How to come by the keys, or why not to. `targetBytes`: what the filtered table is estimated to read. */
  def keys(source: Estimate, targetBytes: => BigInt): Either[String, KeyUse] = {
    lazy val most = targetBytes
    lazy val cheap = source.bytes <= secondRunBytes && source.bytes < most
    if (!source.restricted) Left(s"nothing filters ${source.tables}")
    else if (!source.repeatable) Left(s"a second run of ${source.tables} might give other keys")
    else if (source.broadcast) Right(if (cheap) BroadcastOrSecondRun else BroadcastOnly)
    else if (cheap) Right(BroadcastOrSecondRun)
    else
      Left(
        s"${source.tables} is not broadcast, and its ${bytes(source.bytes)} are too much to read twice " +
          s"(at most ${bytes(most.min(secondRunBytes))} pay)"
      )
  }
}

private[join] object BenefitModel {

  /** What is known of a source of keys before it runs. */
  case class Estimate(tables: String, bytes: BigInt, restricted: Boolean, repeatable: Boolean, broadcast: Boolean)

  /** How the keys are come by. */
  sealed trait KeyUse

  /** From the join's broadcast; not at all where there is none in the end. */
  case object BroadcastOnly extends KeyUse

  /** From the join's broadcast, or where there is none in the end from a run beside the query. */
  case object BroadcastOrSecondRun extends KeyUse

  private def percent(share: Double): String = String.format(Locale.ROOT, "%.0f %%", share * 100)

  private def bytes(size: BigInt): String =
    TraditionalBinaryPrefix.long2String(size.min(Long.MaxValue).toLong, "B", 0)
}

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
    new FilterTranslator(index.columns, caseSensitive).translate(filters) match {
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
