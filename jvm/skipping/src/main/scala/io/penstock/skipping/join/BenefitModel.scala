package io.penstock.skipping.join

import java.util.Locale

import scala.collection.mutable

import org.apache.hadoop.util.StringUtils.TraditionalBinaryPrefix
import org.apache.spark.sql.catalyst.expressions.{And, DynamicPruningSubquery, Expression, PredicateHelper}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LeafNode, LogicalPlan}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag

import io.penstock.skipping.index.{ColumnSummary, TableIndex}
import io.penstock.skipping.model.{FileFilter, FilterTranslator}

/**
 * Decides whether skipping a table's files by a join's keys is likely to pay. A pure function of estimates.
 *
 * @param maxFilesPerKey
 *   the greatest share of files, 0 to 1, that may hold a random key of a column that is worth it
 * @param secondRunBytes
 *   the most bytes that a separate run for keys may read
 */
private[join] class BenefitModel(maxFilesPerKey: Double, secondRunBytes: Long) {

  import BenefitModel._

  /** None if files can be skipped by the column, else the reason against it. */
  def refuseColumn(column: Option[ColumnSummary], files: Int): Option[String] = column match {
    case None => Some("the index does not cover it")
    case Some(_) if files < 2 => Some("the table is one file")
    case Some(summary) if summary.filesPerKey > maxFilesPerKey =>
      Some(s"a key is found in ${percent(summary.filesPerKey)} of the files (at most ${percent(maxFilesPerKey)} pays)")
    case Some(_) => None
  }

  /**
   * The source of the keys, or the reason against using them. `targetBytes`: the estimated bytes that a scan of the
   * filtered table reads.
   */
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

  /**
   * Whether a part that a query needs more than once is better computed each time with filters of its own than once.
   *
   * @param once
   *   the estimated bytes that it reads without such filters
   * @param apart
   *   the estimated bytes that all computations with filters read together
   */
  def repetition(once: BigInt, apart: BigInt): Boolean = apart < once
}

private[join] object BenefitModel {

  /** The estimate of a source of keys before it runs. */
  case class Estimate(tables: String, bytes: BigInt, restricted: Boolean, repeatable: Boolean, broadcast: Boolean)

  /** The source of keys at run time. */
  sealed trait KeyUse

  /** The join's broadcast; no keys where there is none in the end. */
  case object BroadcastOnly extends KeyUse

  /** The join's broadcast or, where there is none in the end, a separate run. */
  case object BroadcastOrSecondRun extends KeyUse

  private def percent(share: Double): String = String.format(Locale.ROOT, "%.0f %%", share * 100)

  private def bytes(size: BigInt): String =
    TraditionalBinaryPrefix.long2String(size.min(Long.MaxValue).toLong, "B", 0)
}

/**
 * A decision about skipping a table's files by the keys of a join.
 *
 * @param column
 *   the table's column
 * @param attempted
 *   whether the query uses the keys
 * @param reason
 *   the source of the keys, or the reason against them, without a capital and a full stop
 */
case class Decision(column: String, attempted: Boolean, reason: String) {
  override def toString: String = s"$column: ${if (attempted) "" else "not attempted: "}$reason"
}

object Decision {

  private val Tag = TreeNodeTag[Seq[Decision]]("io.penstock.skipping.decisions")

  private[join] def record(relation: LogicalPlan, decisions: Seq[Decision]): Unit =
    if (decisions.isEmpty) relation.unsetTagValue(Tag) else relation.setTagValue(Tag, decisions)

  /** The decisions about a relation of an optimized plan; a physical scan has it in its logical link. */
  def of(relation: LogicalPlan): Seq[Decision] = relation.getTagValue(Tag).getOrElse(Nil)
}

/**
 * Estimates the bytes of files that a run of a plan reads, after each table's own filters, by literals and by keys of
 * joins. It uses the indexes and Spark's statistics; a table without either counts whole. For one thread.
 *
 * @param unknown
 *   the share of files, 0 to 1, that are left by keys whose number is not known
 */
private[join] class ExpectedBytes(
    indexOf: LogicalPlan => Option[TableIndex],
    caseSensitive: Boolean,
    unknown: Double = 1.0
) extends PredicateHelper {

  import ExpectedBytes._

  // Estimates for one table recur for each of its keys, and an index may be large.
  private val selected = mutable.HashMap.empty[Expression, Double]

  def apply(plan: LogicalPlan): BigInt = plan match {
    case Filter(condition, FilesOf(relation)) =>
      (BigDecimal(apply(relation)) * share(relation, condition)).toBigInt
    case FilesOf(relation) => FilesOf.sizeInBytes(relation).getOrElse(relation.stats.sizeInBytes)
    case leaf if leaf.children.isEmpty => leaf.stats.sizeInBytes
    case other => other.children.map(apply).sum
  }

  /** The share of the table's files. Only the most selective filter counts, since two may exclude the same files. */
  private def share(relation: LeafNode, condition: Expression): Double =
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

  private def shareWithKeys(relation: LeafNode, index: TableIndex, filter: DynamicPruningSubquery): Double = {
    val known = for {
      column <- DynamicFilter.column(filter.pruningKey)
      filesPerKey <- index.column(column.name).map(_.filesPerKey)
      keys <- filter.broadcastKeyIndices.headOption.flatMap(i => distinct(filter.buildQuery, filter.buildKeys(i)))
    } yield sharePerKeys(keys, distinct(relation, column), filesPerKey)
    known.getOrElse(unknown)
  }

  private def distinct(plan: LogicalPlan, key: Expression): Option[BigInt] = {
    val statistics = plan.stats
    val values = DynamicFilter.column(key).flatMap(statistics.attributeStats.get).flatMap(_.distinctCount)
    (values ++ statistics.rowCount).minOption
  }
}

private[join] object ExpectedBytes {

  /**
   * The share of files, 0 to 1, that hold one of this number of keys.
   *
   * @param distinct
   *   the number of distinct values of the column. Where it is known, the keys count as neighbours, as the days of a
   *   month are; otherwise as scattered
   * @param filesPerKey
   *   the share of files that holds one key
   */
  def sharePerKeys(keys: BigInt, distinct: Option[BigInt], filesPerKey: Double): Double = {
    val apart = keys.toDouble * filesPerKey
    val together = distinct.filter(_ > 0).map(values => (BigDecimal(keys) / BigDecimal(values)).toDouble + filesPerKey)
    (together ++ Seq(apart, 1.0)).min
  }
}
