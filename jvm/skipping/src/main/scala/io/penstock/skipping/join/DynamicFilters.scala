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
 * Spark's own dynamic filter by the keys of a join, also on data columns of a file scan, where Spark applies it to
 * partition columns only, and on partition columns for which Spark's rule found no keys. Spark plans the filter, and
 * prunes partitions by it; `io.penstock.skipping.plan` skips files by it. Stateless.
 */
private[skipping] object DynamicFilter {

  private[join] def apply(pruned: Expression, source: KeySource, onlyInBroadcast: Boolean): DynamicPruningSubquery =
    DynamicPruning.subquery(pruned, source.plan, source.keys, source.index, onlyInBroadcast)

  /** The column by whose values files are skipped: the expression itself, or the column that it casts without loss. */
  def column(expression: Expression): Option[AttributeReference] = expression match {
    case attribute: AttributeReference => Some(attribute)
    case Cast(attribute: AttributeReference, wide, _, _) if ValueEncoding.isLossless(attribute.dataType, wide) =>
      Some(attribute)
    case _ => None
  }

  /**
   * Put the filter on top of a plan, let Spark push it down, and keep it where it arrives right above a file scan and
   * `accept` is true.
   *
   * @return
   *   None where it arrives at no such scan
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

  /** The plan without these filters on data columns; those on partition columns, including Spark's own, stay. */
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

  /** Keep the filters that pass the first test right above a scan, and the second anywhere else. */
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
        // Spark computes two copies of a shared subquery once as long as they are equal.
        case shared: RepartitionOperation => shared.mapChildren(retain(_)((_, found, _) => elsewhere(found))(elsewhere))
        case other => other.mapChildren(retain(_)(atScan)(elsewhere))
      }

  /**
   * Remove the filters that fail the test, and keep the shape of the others, so that a repetition yields the same plan.
   */
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

/** The file scans of one plan, and the decisions about skipping by their columns. For one thread. */
private[join] class Scans(plan: LogicalPlan, indexOf: HadoopFsRelation => Option[TableIndex], benefit: BenefitModel) {

  // Equality of two relations compares the directories of all their partitions; identity is enough here.
  private val indexes = new IdentityHashMap[HadoopFsRelation, Option[TableIndex]]
  private val decisions = mutable.LinkedHashSet.empty[(ExprId, Decision)]

  /** The usable index of the scan's table, if there is one. */
  def index(relation: LogicalRelation): Option[TableIndex] = relation.relation match {
    case files: HadoopFsRelation => indexes.computeIfAbsent(files, indexOf(_))
    case _ => None
  }

  /** Whether files of some scan may be skipped, which takes a table of several files. */
  def mayBeFiltered(plan: LogicalPlan): Boolean = plan.exists {
    case relation: LogicalRelation => index(relation).exists(_.files > 1)
    case _ => false
  }

  /** Whether a filter by keys on this column of the scan is worth it. */
  def accept(relation: LogicalRelation, column: AttributeReference): Boolean =
    index(relation).exists(refuse(relation, column, _).isEmpty)

  /** Whether no filter by this expression is worth it, at whichever scan it arrives; records the reason. */
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

  /** Record a decision about a column that follows from the source of its keys. */
  def decide(column: AttributeReference, attempted: Boolean, reason: String): Unit =
    decisions += column.exprId -> Decision(column.name, attempted, reason)

  /** Attach the most important decision about each column to the scans of a plan. */
  def record(plan: LogicalPlan): Unit = plan.foreach {
    case relation: LogicalRelation =>
      val made = index(relation).toSeq.flatMap(index => relation.output.flatMap(decided(relation, _, index)))
      Decision.record(relation, made)
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

  /** The reason against a column, if any. Partition columns need no index: each file holds one value of them. */
  private def refuse(relation: LogicalRelation, column: AttributeReference, index: TableIndex): Option[String] =
    relation.relation match {
      case files: HadoopFsRelation if files.partitionSchema.fieldNames.contains(column.name) => None
      case _ => benefit.refuseColumn(index.column(column.name), index.files)
    }
}

/**
 * The parts of a plan that are exchanged and occur more than once: groupings and sides of joins. Spark computes the
 * first copy and reuses its exchange for the others while they are equal, so filters must keep them equal.
 *
 * @param common
 *   for each scan in such parts, the index of its leaf in the part, and the only filters that all copies may have
 */
private[join] class Copies(common: Map[Copies.Scan, Seq[(Int, Set[Copies.KeyFilter])]]) {
  import Copies._

  def isEmpty: Boolean = common.isEmpty

  /** Whether the filter, as placed in a plan, is one that all copies may have. */
  def allow(filter: DynamicPruningSubquery, placed: LogicalPlan): Boolean = isEmpty || filters(placed).forall {
    case (relation, found) =>
      found.exprId != filter.exprId || common.getOrElse(scan(relation), Nil).forall { case (leaf, allowed) =>
        allowed(KeyFilter.of(leaf, found))
      }
  }
}

private[join] object Copies {

  /** A scan, identified by its columns, which no other scan has. */
  type Scan = Seq[ExprId]

  val None = new Copies(Map.empty)

  /**
   * The parts with unequal copies in `filtered`, where one copy has only filters that all copies have and another one
   * has more: Spark then reads both, instead of one. (In TPC-DS q64 that was a third more of a table.)
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

  /** The exchanged sides with their keys: both, or only the broadcast one. */
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
   * A filter without the names that differ between copies.
   *
   * @param leaf
   *   the index of the part's leaf whose files it filters
   * @param build
   *   the plan of the keys
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
