package io.penstock.skipping.join

import java.lang.ref.WeakReference
import java.util.IdentityHashMap

import scala.collection.mutable

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, DynamicPruningSubquery, Expression}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.plans.{ExistenceJoin, LeftAnti}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.catalyst.trees.TreePattern.{DYNAMIC_PRUNING_SUBQUERY, JOIN}
import org.apache.spark.sql.execution.datasources.{CatalogFileIndex, FileIndex, HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.internal.SQLConf

import io.penstock.skipping.index.TableIndex
import io.penstock.skipping.model.SkippingSettings

/**
 * The optimizer rule that filters file scans by the keys that joins find at run time, so that a scan skips files
 * without any of them.
 *
 * It has to be the last rule, when the sides of joins no longer change. Each run decides on the whole plan again, since
 * the plan of a subquery may have become part of a query's; the same decisions return the same plan. Spark runs the
 * rule until nothing changes, and a plan that it has just returned comes back at once.
 */
class JoinSkipping(indexOf: HadoopFsRelation => Option[TableIndex]) extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    // The subquery will become a join with unknown sides.
    case subquery: Subquery if subquery.correlated => plan
    case _ if JoinSkipping.isSettled(plan) => plan
    case _ if !isOn || !plan.containsPattern(JOIN) || plan.isStreaming => plan
    case _ =>
      val joins = new KeysOfJoins(DynamicFilter.strip(plan), conf, indexOf).leavingCopiesEqual
      val filtered = listedOnce(reuse(joins.filtered, plan))
      val result = if (filtered.fastEquals(plan)) plan else filtered
      joins.record(result)
      JoinSkipping.settle(result)
      result
  }

  // Spark's own dynamic pruning plans the filters.
  private def isOn: Boolean =
    new SkippingSettings(conf).dynamic && conf.dynamicPartitionPruningEnabled && conf.exchangeReuseEnabled

  /** Replace filters by equal ones of `before`, with their identities. */
  private def reuse(plan: LogicalPlan, before: LogicalPlan): LogicalPlan = {
    val known = before
      .flatMap(_.expressions.flatMap(_.collect { case filter: DynamicPruningSubquery => filter }))
      .map(filter => filter.canonicalized -> filter)
      .toMap[Expression, DynamicPruningSubquery]
    if (known.isEmpty) plan
    else
      plan.transformAllExpressionsWithPruning(_.containsPattern(DYNAMIC_PRUNING_SUBQUERY)) {
        case filter: DynamicPruningSubquery => known.getOrElse(filter.canonicalized, filter)
      }
  }

  /**
   * List the partitions of the tables that may be read a second time for their keys, for both runs. A scan of a
   * catalog's table whose partitions nothing filters asks the metastore for them when it starts, so that a second run
   * could lack the keys of a partition that was added before the join's own.
   */
  private def listedOnce(plan: LogicalPlan): LogicalPlan = {
    val listed = new IdentityHashMap[FileIndex, FileIndex]
    for {
      node <- plan.collectWithSubqueries { case node if node.containsPattern(DYNAMIC_PRUNING_SUBQUERY) => node }
      expression <- node.expressions
      filter <- expression.collect { case filter: DynamicPruningSubquery if !filter.onlyInBroadcast => filter }
      files <- filter.buildQuery.collectWithSubqueries { case LogicalRelation(files: HadoopFsRelation, _, _, _, _) =>
        files.location
      }
    } files match {
      case index: CatalogFileIndex => listed.computeIfAbsent(index, _ => index.filterPartitions(Nil)): Unit
      case _ =>
    }
    if (listed.isEmpty) plan
    else
      plan.transformDownWithSubqueries {
        case relation @ LogicalRelation(files: HadoopFsRelation, _, _, _, _) if listed.containsKey(files.location) =>
          relation.copy(relation = files.copy(location = listed.get(files.location))(files.sparkSession))
      }
  }
}

private object JoinSkipping {

  /**
   * The tag on the root of a plan that the rule returned, with that root as its value: copies have the tag, too, but
   * are not settled.
   */
  private val Settled = TreeNodeTag[WeakReference[LogicalPlan]]("io.penstock.skipping.settled")

  private def settle(plan: LogicalPlan): Unit = plan.setTagValue(Settled, new WeakReference(plan))

  private def isSettled(plan: LogicalPlan): Boolean = plan.getTagValue(Settled).exists(_.get eq plan)
}

/**
 * Registers rules to run after all of Spark's own rules, in this order, a place that extensions have no hook for.
 *
 * It is injected as an ordinary optimizer rule, and only its construction matters: Spark constructs it while it
 * assembles the batches of its optimizer, and then reads the last batch, the session's extra optimizations. So it works
 * for a session's first query, for cloned sessions, and after others have set the extra optimizations.
 */
class LastOptimizerRule(session: SparkSession, rules: Rule[LogicalPlan]*) extends Rule[LogicalPlan] {

  private val experimental = session.experimental
  for (rule <- rules if !experimental.extraOptimizations.exists(_.ruleName == rule.ruleName))
    experimental.extraOptimizations = experimental.extraOptimizations :+ rule

  override def apply(plan: LogicalPlan): LogicalPlan = plan
}

/**
 * One pass over an optimized plan that filters its file scans by the keys of its joins; see [[JoinSkipping]].
 *
 * A filter by a broadcast holds a copy of the join's side, and Spark finds the broadcast again only while the two are
 * equal. So a side must not change after it was copied: at each join, from the top down, the pass first finishes the
 * broadcast side, then adds filters to the other one, and then visits the joins of that one.
 */
private[join] class KeysOfJoins(
    plan: LogicalPlan,
    conf: SQLConf,
    indexOf: HadoopFsRelation => Option[TableIndex],
    copies: Copies = Copies.None
) {

  private val settings = new SkippingSettings(conf)
  private val benefit = new BenefitModel(settings.maxFilesPerKey, settings.secondRunBytes)
  private val scans = new Scans(plan, indexOf, benefit)

  lazy val filtered: LogicalPlan = if (scans.mayBeFiltered(plan)) rewrite(plan, None) else plan

  /** The pass that keeps copies of one part equal where computing it once is known to cost less than to filter each. */
  def leavingCopiesEqual: KeysOfJoins = {
    val bytes = new ExpectedBytes(scans.index, conf.caseSensitiveAnalysis, unknown = 0)
    def pays(once: LogicalPlan, apart: Seq[LogicalPlan]) = benefit.repetition(bytes(once), apart.map(bytes(_)).sum)
    val found = if (filtered eq plan) Copies.None else Copies.unequal(filtered, conf, pays)
    if (found.isEmpty) this else new KeysOfJoins(plan, conf, indexOf, found)
  }

  private val sidesThatPrune = plan.flatMap(_.expressions.flatMap(_.collect { case filter: DynamicPruningSubquery =>
    filter.buildQuery
  }))

  /** Whether Spark prunes partitions by this broadcast, which it, too, finds only while the side is unchanged. */
  private def prunesPartitions(build: LogicalPlan): Boolean =
    scans.mayBeFiltered(build) && sidesThatPrune.exists(_.sameResult(build))

  /** Attach the decisions to the scans of the result, for EXPLAIN. */
  def record(result: LogicalPlan): Unit = scans.record(result)

  private def rewrite(plan: LogicalPlan, within: Option[FilteredTree]): LogicalPlan = {
    val tree = within.filterNot(_.tree.isApart(plan))
    (JoinTree.top(plan), plan) match {
      case _ if !scans.mayBeFiltered(plan) => plan
      case (None, merge: MergeRows) =>
        merge.mapChildren(changes => rewrite(changes, JoinTree.top(changes).map(filteredTree(_, ofMerge = true))))
      case (None, _) => plan.mapChildren(rewrite(_, None))
      case (_, join: Join) => rewriteJoin(join, tree.getOrElse(filteredTree(join)))
      case (Some(top), _) => plan.mapChildren(rewrite(_, tree.orElse(Some(filteredTree(top)))))
    }
  }

  private def filteredTree(top: Join, ofMerge: Boolean = false) =
    new FilteredTree(new JoinTree(top), scans, benefit, copies, conf, separately, ofMerge)

  /** The filtered plan of a separate run, whose decisions do not concern the query's scans. */
  private def separately(plan: LogicalPlan): LogicalPlan = new KeysOfJoins(plan, conf, indexOf).filtered

  private def rewriteJoin(join: Join, tree: FilteredTree): LogicalPlan = join.joinType match {
    case LeftAnti | ExistenceJoin(_) =>
      join.copy(left = rewrite(join.left, Some(tree)), right = rewrite(join.right, None))
    case _ =>
      def finish(side: LogicalPlan, keys: Seq[Expression]) =
        rewrite(keys.foldLeft(side)((plan, key) => tree.fromElsewhere(plan, key)), Some(tree))
      Broadcast.of(join, conf) match {
        case Some(broadcast) =>
          val (buildKeys, otherKeys) = broadcast.equalities.unzip
          val finished =
            if (prunesPartitions(broadcast.build)) broadcast
            else broadcast.withBuild(finish(broadcast.build, buildKeys))
          finished.withOther(finish(tree.fromBroadcast(finished), otherKeys)).join
        case None =>
          val (lefts, rights) = JoinGraph.equalities(join).unzip
          join.copy(left = finish(join.left, lefts), right = finish(join.right, rights))
      }
  }
}

/**
 * Filters the relations of one tree of joins by keys from elsewhere in the tree.
 *
 * @param ofMerge
 *   whether the tree finds the rows that a MERGE changes: its source then counts as restricting, since few of the
 *   target's rows change at once, although nothing filters the source
 */
private[join] class FilteredTree(
    val tree: JoinTree,
    scans: Scans,
    benefit: BenefitModel,
    copies: Copies,
    conf: SQLConf,
    skipping: LogicalPlan => LogicalPlan,
    ofMerge: Boolean
) {

  private val settings = new SkippingSettings(conf)
  private val bytes = new ExpectedBytes(scans.index, conf.caseSensitiveAnalysis)
  private lazy val graph = JoinGraph.of(tree)
  private lazy val broadcasts = tree.joins.flatMap(Broadcast.of(_, conf))

  /** The other side of a join, with relations filtered by the keys of the broadcast side in its present form. */
  def fromBroadcast(broadcast: Broadcast): LogicalPlan =
    broadcast.equalities.map(_._1).foldLeft(broadcast.other) { (side, key) =>
      targets(side, key) match {
        case Nil => side
        case reached =>
          broadcast.source(key, restricts).fold(side) { source =>
            reached.foldLeft(side)((plan, target) => filter(plan, target, source).getOrElse(plan))
          }
      }
    }

  /**
   * A side of a join, with the relation of `key` filtered by keys of a relation further away, unless the broadcast of a
   * join between the two will filter it.
   */
  def fromElsewhere(side: LogicalPlan, key: Expression): LogicalPlan = graph.key(key) match {
    case Some(target) if !scans.refuses(target.expression) && !served.exists(_._1.same(target)) =>
      val near = graph.restricting(target, settings.transitive).filter(_.relation != target.relation)
      (near.iterator.flatMap(settledSources(_)) ++ near.iterator.flatMap(separateRuns.source(_, target.relation)))
        .flatMap(filter(side, target, _))
        .nextOption()
        .getOrElse {
          DynamicFilter.column(key).foreach(scans.decide(_, attempted = false, "no small filtered table has its keys"))
          side
        }
    case _ => side
  }

  /** The keys that broadcasts restrict on the other sides of their joins, with the sources. */
  private lazy val served: Seq[(Key, KeySource)] = for {
    broadcast <- broadcasts
    if restricts(broadcast.build) && Repeatable(broadcast.build)
    (key, _) <- broadcast.equalities
    target <- targets(broadcast.other, key)
    source <- broadcast.source(key, restricts)
  } yield target -> source

  private val lefts = mutable.HashMap.empty[Int, BigInt]

  /**
   * The estimated bytes of a relation after the filters of all broadcasts, including those of joins that are not
   * rewritten yet.
   */
  private def leftByBroadcasts(relation: Int): BigInt = lefts.getOrElseUpdate(
    relation, {
      val filters = served.collect {
        case (Key(`relation`, target), source) if target.dataType == source.key.dataType =>
          DynamicFilter(target, source, onlyInBroadcast = true)
      }
      bytes(filters.foldLeft(graph.relations(relation)) { (plan, filter) =>
        DynamicFilter.place(filter, plan)((_, _) => true).getOrElse(plan)
      })
    }
  )

  /** The broadcasts without scans to filter, which any part of the tree may use. */
  private def settledSources(key: Key): Seq[KeySource] = for {
    broadcast <- broadcasts
    if !scans.mayBeFiltered(broadcast.build)
    (expression, _) <- broadcast.equalities
    if graph.key(expression).exists(_.same(key))
    source <- broadcast.source(expression, restricts)
    if source.restricted
  } yield source

  private lazy val separateRuns =
    new SeparateRuns(graph, bytes, skipping, settings.secondRunBytes, settings.transitive, restricts)

  private def restricts(plan: LogicalPlan): Boolean = ofMerge || Restricted(plan)

  private def targets(side: LogicalPlan, key: Expression): Seq[Key] = for {
    source <- graph.key(key).toSeq
    target <- graph.restrictedBy(source, settings.transitive)
    // The index rules out most keys, before the search for a source.
    if !scans.refuses(target.expression)
    if tree.changeRelation(side, target.expression.references)(Some(_)).isDefined
  } yield target

  private def filter(side: LogicalPlan, target: Key, source: KeySource): Option[LogicalPlan] = {
    // Keys save only what other filters leave; a broadcast's keys are free, while a separate run has to pay.
    def left = {
      val byNow = tree.relationOf(side, target.expression.references).fold(BigInt(0))(bytes(_))
      if (source.broadcast) byNow else byNow.min(leftByBroadcasts(target.relation))
    }
    benefit.keys(source.estimate(bytes), left) match {
      case _ if target.expression.dataType != source.key.dataType => None
      case Left(reason) =>
        DynamicFilter.column(target.expression).foreach(scans.decide(_, attempted = false, reason))
        None
      case Right(use) =>
        val filter = DynamicFilter(target.expression, source, onlyInBroadcast = use == BenefitModel.BroadcastOnly)
        val placed = tree.changeRelation(side, target.expression.references) { relation =>
          if (breaksCopies(filter, relation)) None else DynamicFilter.place(filter, relation)(accept(source))
        }
        if (placed.isEmpty)
          DynamicFilter
            .column(target.expression)
            .foreach(scans.decide(_, attempted = false, "the filter does not get down to the files"))
        placed
    }
  }

  private def breaksCopies(filter: DynamicPruningSubquery, relation: LogicalPlan): Boolean = !copies.isEmpty && {
    val broken = DynamicFilter.place(filter, relation)((_, _) => true).exists(!copies.allow(filter, _))
    if (broken)
      DynamicFilter
        .column(filter.pruningKey)
        .foreach(scans.decide(_, attempted = false, "an equal part of the query is read together with it"))
    broken
  }

  private def accept(source: KeySource)(relation: LeafNode, column: AttributeReference): Boolean = {
    val accepted = scans.accept(relation, column)
    if (accepted) scans.decide(column, attempted = true, source.description)
    accepted
  }
}
