package io.penstock.skipping.join

import java.util.IdentityHashMap

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.PushDownPredicates
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, Filter, Join, LogicalPlan, RepartitionOperation}
import org.apache.spark.sql.catalyst.trees.TreePattern.DYNAMIC_PRUNING_SUBQUERY
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.internal.SQLConf

import io.penstock.skipping.index.TableIndex
import io.penstock.skipping.line.DynamicPruning
import io.penstock.skipping.model.ValueEncoding

/**
 * Spark's own filter by the keys of a join, on a data column of a file scan, where Spark itself has them on partition
 * columns only, or on a partition column that Spark's rule found no keys for. Spark plans it, and prunes partitions by
 * it; what it does on a data column is the business of `io.penstock.skipping.plan`.
 */
private[skipping] object DynamicFilter {

  private[join] def apply(pruned: Expression, source: KeySource, onlyInBroadcast: Boolean): DynamicPruningSubquery =
    DynamicPruning.subquery(pruned, source.plan, source.keys, source.index, onlyInBroadcast)

  /** The column whose files are skipped by values of the expression: itself, or a column it widens without loss. */
  def column(expression: Expression): Option[AttributeReference] = expression match {
    case attribute: AttributeReference => Some(attribute)
    case Cast(attribute: AttributeReference, wide, _, _) if ValueEncoding.isLossless(attribute.dataType, wide) =>
      Some(attribute)
    case _ => None
  }

  /**
   * Puts the filter on top of a plan, has Spark push it down, and keeps it where it arrived right above a file scan and
   * `accept` takes it: what it looks at there is not for the rows.
   *
   * @return
   *   None where it arrived nowhere
   */
  def place(filter: DynamicPruningSubquery, plan: LogicalPlan)(
      accept: (LogicalRelation, AttributeReference) => Boolean
  ): Option[LogicalPlan] = {
    var arrived = false
    val placed = retain(PushDownPredicates(Filter(filter, plan))) { (relation, found, beside) =>
      found.exprId != filter.exprId || {
        val accepted = (isData(relation, found) || !isPrunedBySpark(found, beside)) &&
          column(found.pruningKey).exists(accept(relation, _))
        arrived ||= accepted
        accepted
      }
    }(found => found.exprId != filter.exprId)
    Option.when(arrived)(placed)
  }

  /** The plan without any of these filters on data columns; those on partition columns, Spark's own too, stay. */
  def strip(plan: LogicalPlan): LogicalPlan = retain(plan)((relation, found, _) => !isData(relation, found))(_ => true)

  private def isPrunedBySpark(filter: DynamicPruningSubquery, beside: Expression): Boolean = beside.exists {
    case other: DynamicPruningSubquery =>
      other.exprId != filter.exprId && other.pruningKey.semanticEquals(filter.pruningKey)
    case _ => false
  }

  private def isData(relation: LogicalRelation, filter: DynamicPruningSubquery): Boolean = relation.relation match {
    case files: HadoopFsRelation =>
      val data = files.dataSchema.fieldNames.toSet -- files.partitionSchema.fieldNames
      filter.pruningKey.references.forall(attribute => data(attribute.name))
    case _ => false
  }

  /** Keeps the filters that pass the first test right above a scan, or the second anywhere else. */
  private def retain(plan: LogicalPlan)(atScan: (LogicalRelation, DynamicPruningSubquery, Expression) => Boolean)(
      elsewhere: DynamicPruningSubquery => Boolean
  ): LogicalPlan =
    if (!plan.containsPattern(DYNAMIC_PRUNING_SUBQUERY)) plan
    else
      plan match {
        case filter @ Filter(condition, relation: LogicalRelation) => keep(filter)(atScan(relation, _, condition))
        case filter: Filter =>
          keep(filter)(elsewhere) match {
            case Filter(condition, child) => Filter(condition, retain(child)(atScan)(elsewhere))
            case other => retain(other)(atScan)(elsewhere)
          }
        // The two copies of a shared subquery are computed once as long as they are equal.
        case shared: RepartitionOperation => shared.mapChildren(retain(_)((_, found, _) => elsewhere(found))(elsewhere))
        case other => other.mapChildren(retain(_)(atScan)(elsewhere))
      }

  /** Leaves the shape of what stays as it was: doing the same twice gives the same plan. */
  private def keep(filter: Filter)(test: DynamicPruningSubquery => Boolean): LogicalPlan = {
    def kept(condition: Expression): Option[Expression] = condition match {
      case And(left, right) =>
        (kept(left), kept(right)) match {
          case (Some(a), Some(b)) => Some(if ((a eq left) && (b eq right)) condition else And(a, b))
          case (a, b) => a.orElse(b)
        }
      case found: DynamicPruningSubquery => Some(found).filter(test)
      case other => Some(other)
    }
    kept(filter.condition).fold(filter.child) { condition =>
      if (condition eq filter.condition) filter else filter.copy(condition = condition)
    }
  }
}

/** The file scans of one plan: which of their columns files can be skipped by, and what was decided about each. */
private[join] class Scans(plan: LogicalPlan, indexOf: HadoopFsRelation => Option[TableIndex], benefit: BenefitModel) {

  // By identity: to compare two of them is to compare the directories of all their partitions.
  private val indexes = new IdentityHashMap[HadoopFsRelation, Option[TableIndex]]
  private val decisions = mutable.LinkedHashSet.empty[(ExprId, Decision)]

  /** None where the scan's table has none that can be used. */
  def index(relation: LogicalRelation): Option[TableIndex] = relation.relation match {
    case files: HadoopFsRelation => indexes.computeIfAbsent(files, indexOf(_))
    case _ => None
  }

  /** Whether files of some scan may be skipped: not of a table that is one file, as most small ones are. */
  def mayBeFiltered(plan: LogicalPlan): Boolean = plan.exists {
    case relation: LogicalRelation => index(relation).exists(_.files > 1)
    case _ => false
  }

  /** Whether a filter by keys on this column of the scan is worth it. */
  def accept(relation: LogicalRelation, column: AttributeReference): Boolean =
    index(relation).exists(refuse(relation, column, _).isEmpty)

  /** Whether none is, of keys by this expression, wherever they arrive: noted with the reason. */
  def refuses(expression: Expression): Boolean = DynamicFilter.column(expression).forall { column =>
    owners.get(column.exprId).exists { relation =>
      index(relation).forall { index =>
        val reason = refuse(relation, column, index)
        reason.foreach(decide(column, attempted = false, _))
        reason.isDefined
      }
    }
  }

  private lazy val owners: Map[ExprId, LogicalRelation] = plan
    .collect { case relation: LogicalRelation =>
      relation.output.map(_.exprId -> relation)
    }
    .flatten
    .toMap

  /** Notes what was decided about a column because of where keys for it would come from. */
  def decide(column: AttributeReference, attempted: Boolean, reason: String): Unit =
    decisions += column.exprId -> Decision(column.name, attempted, reason)

  /** Tells the scans of a plan what was decided about their columns: of each, what weighs most. */
  def record(plan: LogicalPlan): Unit = plan.foreach {
    case relation: LogicalRelation =>
      val told = index(relation).toSeq.flatMap(index => relation.output.flatMap(decided(relation, _, index)))
      Decision.record(relation, told)
    case _ =>
  }

  private def decided(relation: LogicalRelation, column: AttributeReference, index: TableIndex): Seq[Decision] = {
    val made = decisions.toSeq.collect { case (column.exprId, decision) => decision }
    val (attempts, refusals) = made.partition(_.attempted)
    if (attempts.nonEmpty || made.isEmpty) attempts
    else
      refuse(relation, column, index).fold(refusals.take(1))(reason =>
        Seq(Decision(column.name, attempted = false, reason))
      )
  }

  /** Files of a partition hold one value of its column each: the index need not know of it. */
  private def refuse(relation: LogicalRelation, column: AttributeReference, index: TableIndex): Option[String] =
    relation.relation match {
      case files: HadoopFsRelation if files.partitionSchema.fieldNames.contains(column.name) => None
      case _ => benefit.refuseColumn(index.column(column.name), index.files)
    }
}

/**
 * Parts that are exchanged and in a plan more than once: groupings and sides of joins. Spark computes the first of them
 * and reuses its exchange for the others as long as they are equal, which filters must leave them.
 *
 * @param common
 *   for each scan below such parts, the filters that all copies of each are to have, and no others; and which of the
 *   part's leaves it is
 */
private[join] class Copies(common: Map[Copies.Scan, Seq[(Int, Set[Copies.KeyFilter])]]) {
  import Copies._

  def isEmpty: Boolean = common.isEmpty

  /** Whether the filter, as it was placed in a plan, is one that all copies have. */
  def allow(filter: DynamicPruningSubquery, placed: LogicalPlan): Boolean = isEmpty || filters(placed).forall {
    case (relation, found) =>
      found.exprId != filter.exprId || common.getOrElse(scan(relation), Nil).forall { case (leaf, allowed) =>
        allowed(KeyFilter.of(leaf, found))
      }
  }
}

private[join] object Copies {

  /** A scan by the columns it has, which no other has. */
  type Scan = Seq[ExprId]

  val None = new Copies(Map.empty)

  /**
   * Those of which one copy has in `filtered` only such filters as all the others have, too, and another has more: what
   * the first reads, the other could have had for nothing. (q64 of TPC-DS read a third more of a table.)
   */
  def unequal(filtered: LogicalPlan, conf: SQLConf): Copies = {
    val parts = filtered.collect {
      case grouping: Aggregate => Seq(grouping -> Nil)
      case join: Join => sides(join, conf)
    }.flatten
    val equal = parts.groupMap { case (part, keys) => (DynamicFilter.strip(part).canonicalized, keys) }(_._1)
    val limits = for {
      copies <- equal.values.toSeq if copies.size > 1
      kept = copies.map(KeyFilter.in)
      least <- kept.find(few => kept.forall(few.subsetOf)).toSeq if kept.exists(_ != least)
      copy <- copies
      (relation: LogicalRelation, leaf) <- copy.collectLeaves().zipWithIndex
    } yield scan(relation) -> (leaf, least)
    new Copies(limits.groupMap(_._1)(_._2))
  }

  /** Those that are exchanged, each with the keys by which it is: both, or the one that is broadcast. */
  private def sides(join: Join, conf: SQLConf): Seq[(LogicalPlan, Seq[Expression])] = {
    val (lefts, rights) = JoinGraph.equalities(join).unzip
    val exchanged = Broadcast.of(join, conf).map(_.build)
    Seq(join.left -> lefts, join.right -> rights).collect {
      case (side, keys) if keys.nonEmpty && exchanged.forall(_ eq side) => side -> normalized(keys, side)
    }
  }

  private def normalized(keys: Seq[Expression], plan: LogicalPlan): Seq[Expression] =
    keys.map(QueryPlan.normalizeExpressions(_, plan.output))

  /**
   * A filter, told without the names that each copy has of its own.
   *
   * @param leaf
   *   of the part, whose files it filters
   * @param build
   *   what has the keys
   */
  case class KeyFilter(leaf: Int, column: Option[String], build: LogicalPlan, keys: Seq[Expression])

  private object KeyFilter {

    def of(leaf: Int, filter: DynamicPruningSubquery): KeyFilter = {
      val build = filter.buildQuery
      val keys = filter.broadcastKeyIndices.map(filter.buildKeys)
      val column = DynamicFilter.column(filter.pruningKey).map(_.name)
      KeyFilter(leaf, column, build.canonicalized, normalized(keys, build))
    }

    def in(part: LogicalPlan): Set[KeyFilter] = {
      val leaves = part.collectLeaves()
      filters(part).map { case (relation, filter) => of(leaves.indexWhere(_ eq relation), filter) }.toSet
    }
  }

  private def filters(plan: LogicalPlan): Seq[(LogicalRelation, DynamicPruningSubquery)] = plan.collect {
    case Filter(condition, relation: LogicalRelation) =>
      condition.collect { case filter: DynamicPruningSubquery => relation -> filter }
  }.flatten

  private def scan(relation: LogicalRelation): Scan = relation.output.map(_.exprId)
}
