package io.penstock.skipping.join

import java.util.IdentityHashMap

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.PushDownPredicates
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.trees.TreePattern.DYNAMIC_PRUNING_SUBQUERY
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.internal.SQLConf

import io.penstock.skipping.index.{IndexedScan, TableIndex}
import io.penstock.skipping.line.DynamicPruning
import io.penstock.skipping.model.ValueEncoding

/**
 * Spark's own dynamic filter by the keys of a join, also on data columns of a file scan, where Spark applies it to
 * partition columns only, and on partition columns for which Spark's rule found no keys. Spark plans the filter, and
 * prunes partitions by it; `io.penstock.skipping.plan` skips files by it. Stateless.
 */
private[skipping] object DynamicFilter extends PredicateHelper with AliasHelper {

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
      accept: (LeafNode, AttributeReference) => Boolean
  ): Option[LogicalPlan] = {
    var arrived = false
    val placed = retain(belowRowIds(PushDownPredicates(Filter(filter, plan)))) { (relation, found, beside) =>
      found.exprId != filter.exprId || {
        val accepted = (isData(relation, found) || !isPrunedBySpark(found, beside)) &&
          FilesOf.key(relation, found.pruningKey).exists(accept(relation, _))
        arrived ||= accepted
        accepted
      }
    }(found => found.exprId != filter.exprId)
    Option.when(arrived)(placed)
  }

  /**
   * Carry filters through the numbering of a MERGE's target rows, by which Spark notices one that matches twice:
   * without the rows of some files the others still have different numbers.
   */
  private def belowRowIds(plan: LogicalPlan): LogicalPlan = plan.transform {
    case Filter(condition, target: Project) if isNumbered(target) && condition.exists(isDynamic) =>
      val (dynamic, others) = splitConjunctivePredicates(condition).partition(isDynamic)
      val carried = replaceAlias(dynamic.reduce(And), getAliasMap(target))
      val below = target.copy(child = PushDownPredicates(Filter(carried, target.child)))
      others.reduceOption(And).fold[LogicalPlan](below)(Filter(_, below))
  }

  private def isDynamic(condition: Expression): Boolean = condition.isInstanceOf[DynamicPruningSubquery]

  private def isNumbered(target: Project): Boolean = {
    val undetermined = target.projectList.filterNot(_.deterministic)
    undetermined.nonEmpty && undetermined.forall {
      case Alias(_: MonotonicallyIncreasingID, MergeRows.ROW_ID) => true
      case _ => false
    }
  }

  /** The plan without these filters on data columns; those on partition columns, including Spark's own, stay. */
  def strip(plan: LogicalPlan): LogicalPlan = retain(plan)((relation, found, _) => !isData(relation, found))(_ => true)

  private def isPrunedBySpark(filter: DynamicPruningSubquery, beside: Expression): Boolean = beside.exists {
    case other: DynamicPruningSubquery =>
      other.exprId != filter.exprId && other.pruningKey.semanticEquals(filter.pruningKey)
    case _ => false
  }

  private def isData(relation: LeafNode, filter: DynamicPruningSubquery): Boolean = {
    val partitions = FilesOf.partitions(relation)
    !filter.pruningKey.references.exists(attribute => partitions(attribute.name))
  }

  /** Keep the filters that pass the first test right above a scan, and the second anywhere else. */
  private def retain(plan: LogicalPlan)(atScan: (LeafNode, DynamicPruningSubquery, Expression) => Boolean)(
      elsewhere: DynamicPruningSubquery => Boolean
  ): LogicalPlan =
    if (!plan.containsPattern(DYNAMIC_PRUNING_SUBQUERY)) plan
    else
      plan match {
        case filter @ Filter(condition, FilesOf(relation)) => keep(filter)(atScan(relation, _, condition))
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

/** The leaves of a plan that read a table's files, with what Spark knows of them. */
private[join] object FilesOf {

  def unapply(plan: LogicalPlan): Option[LeafNode] = plan match {
    case relation @ LogicalRelation(_: HadoopFsRelation, _, _, _, _) => Some(relation)
    case relation: DataSourceV2ScanRelation if relation.scan.isInstanceOf[IndexedScan] => Some(relation)
    case _ => None
  }

  /** The columns by which Spark itself prunes the files of such a leaf. */
  def partitions(leaf: LeafNode): Set[String] = leaf match {
    case LogicalRelation(files: HadoopFsRelation, _, _, _, _) => files.partitionSchema.fieldNames.toSet
    case relation: DataSourceV2ScanRelation =>
      scan(relation).toSet.flatMap((found: IndexedScan) => found.filterAttributes.map(_.fieldNames.mkString(".")))
    case _ => Set.empty
  }

  /** The column of a leaf that the keys of this expression skip files by, if they can arrive there. */
  def key(leaf: LeafNode, expression: Expression): Option[AttributeReference] = leaf match {
    // Spark hands keys to such a scan for a column, not for a cast of one.
    case _: DataSourceV2ScanRelation => Some(expression).collect { case attribute: AttributeReference => attribute }
    case _ => DynamicFilter.column(expression)
  }

  /** The bytes of the files after the scan's own filters, without an index; None where they are unknown. */
  def sizeInBytes(leaf: LeafNode): Option[BigInt] = leaf match {
    case relation @ LogicalRelation(files: HadoopFsRelation, _, _, _, _) =>
      // The plan's statistics would be the size of the rows in memory, with all their columns.
      Some(relation.catalogTable.flatMap(_.stats).fold(BigInt(files.location.sizeInBytes))(_.sizeInBytes))
    case relation: DataSourceV2ScanRelation => scan(relation).map(found => BigInt(found.sizeInBytes))
    case _ => None
  }

  def scan(relation: DataSourceV2ScanRelation): Option[IndexedScan] =
    Some(relation.scan).collect { case scan: IndexedScan => scan }
}

/** The file scans of one plan, and the decisions about skipping by their columns. For one thread. */
private[join] class Scans(plan: LogicalPlan, indexOf: HadoopFsRelation => Option[TableIndex], benefit: BenefitModel) {

  // Equality of two relations compares the directories of all their partitions; identity is enough here.
  private val indexes = new IdentityHashMap[HadoopFsRelation, Option[TableIndex]]
  private val decisions = mutable.LinkedHashSet.empty[(ExprId, Decision)]

  /** The usable index of the scan's table, if there is one. */
  def index(leaf: LogicalPlan): Option[TableIndex] = leaf match {
    case LogicalRelation(files: HadoopFsRelation, _, _, _, _) => indexes.computeIfAbsent(files, indexOf(_))
    case relation: DataSourceV2ScanRelation => FilesOf.scan(relation).map(_.index)
    case _ => None
  }

  /** Whether files of some scan may be skipped, which takes a table of several files. */
  def mayBeFiltered(plan: LogicalPlan): Boolean = plan.exists(index(_).exists(_.files > 1))

  /** Whether a filter by keys on this column of the scan is worth it. */
  def accept(relation: LeafNode, column: AttributeReference): Boolean =
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

  private lazy val owners: Map[ExprId, LeafNode] = plan
    .collect { case FilesOf(relation) => relation.output.map(_.exprId -> relation) }
    .flatten
    .toMap

  /** Record a decision about a column that follows from the source of its keys. */
  def decide(column: AttributeReference, attempted: Boolean, reason: String): Unit =
    decisions += column.exprId -> Decision(column.name, attempted, reason)

  /** Attach the most important decision about each column to the scans of a plan. */
  def record(plan: LogicalPlan): Unit = plan.foreach {
    case FilesOf(relation) =>
      val made = index(relation).toSeq.flatMap(index => relation.output.flatMap(decided(relation, _, index)))
      Decision.record(relation, made)
    case _ =>
  }

  private def decided(relation: LeafNode, column: Attribute, index: TableIndex): Seq[Decision] = {
    val made = decisions.toSeq.collect { case (id, decision) if id == column.exprId => decision }
    val (attempts, refusals) = made.partition(_.attempted)
    if (attempts.nonEmpty || made.isEmpty) attempts
    else
      refuse(relation, column, index).fold(refusals.take(1))(reason =>
        Seq(Decision(column.name, attempted = false, reason))
      )
  }

  /** The reason against a column, if any. Partition columns need no index: each file holds one value of them. */
  private def refuse(relation: LeafNode, column: Attribute, index: TableIndex): Option[String] =
    relation match {
      case _: LogicalRelation if FilesOf.partitions(relation)(column.name) => None
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
   * The parts with unequal copies in `filtered` that are better equal, with the filters that all copies have: where one
   * copy has no others, Spark then reads both, instead of one (in TPC-DS q64 that was a third more of a table); and
   * where the filters of the copies do not pay for computing each of them.
   *
   * @param pays
   *   whether copies with all their filters cost less than one without them
   */
  def unequal(filtered: LogicalPlan, conf: SQLConf, pays: (LogicalPlan, Seq[LogicalPlan]) => Boolean): Copies = {
    val parts = filtered.collect {
      case grouping: Aggregate => Seq(grouping -> Nil)
      case join: Join => sides(join, conf)
    }.flatten
    val equal = parts.groupMap { case (part, keys) => (DynamicFilter.strip(part).canonicalized, keys) }(_._1)
    val limits = for {
      copies <- equal.values.toSeq if copies.size > 1
      kept = copies.map(KeyFilter.in)
      least = kept.reduce(_ & _)
      if kept.exists(_ != least) && (kept.contains(least) || !pays(DynamicFilter.strip(copies.head), copies))
      copy <- copies
      (FilesOf(relation), leaf) <- copy.collectLeaves().zipWithIndex
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

  private def filters(plan: LogicalPlan): Seq[(LeafNode, DynamicPruningSubquery)] = plan.collect {
    case Filter(condition, FilesOf(relation)) =>
      condition.collect { case filter: DynamicPruningSubquery => relation -> filter }
  }.flatten

  private def scan(relation: LeafNode): Scan = relation.output.map(_.exprId)
}
