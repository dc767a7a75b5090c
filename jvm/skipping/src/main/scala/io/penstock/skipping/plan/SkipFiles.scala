package io.penstock.skipping.plan

import org.apache.spark.sql.catalyst.expressions.{
  And,
  AttributeSeq,
  DynamicPruning,
  DynamicPruningExpression,
  Expression,
  IsNotNull,
  PlanExpression,
  PredicateHelper
}
import org.apache.spark.sql.catalyst.planning.PhysicalOperation
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.catalyst.trees.TreePattern.PLAN_EXPRESSION
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.datasources.v2.{BatchScanExec, DataSourceV2ScanRelation, DataSourceV2Strategy}
import org.apache.spark.sql.execution.datasources.{CatalogFileIndex, FileIndex, HadoopFsRelation, InMemoryFileIndex}
import org.apache.spark.sql.{SparkSession, classic}

import io.penstock.skipping.index.{IndexedScan, SkippedPaths, TableIndex}
import io.penstock.skipping.join.{Decision, DynamicFilter}
import io.penstock.skipping.model.{FileFilter, FilterTranslator, KeyColumn, SkippingSettings}

/**
 * The rule that lets file scans of tables with an index skip files by their own filters. Idempotent.
 *
 * @param find
 *   the index of a scan's table, if it has one
 * @param ready
 *   whether plans are ready to run; before that, filters on partitions have no planned subqueries yet
 */
class SkipFiles(find: HadoopFsRelation => Option[TableIndex], ready: Boolean) extends Rule[SparkPlan] {

  override def apply(plan: SparkPlan): SparkPlan =
    if (!settings.enabled) plan
    else plan.transform { case scan: FileSourceScanExec if !isDone(scan) => skipping(scan, Nil) }

  /** The scan, which then skips by these keys, too. */
  def skipping(scan: FileSourceScanExec, keys: Seq[InSubqueryExec]): FileSourceScanExec =
    SkippableScan.of(SkipFiles.withoutSkipping(scan), find).fold(scan)(prepared(_, keys ++ SkipFiles.keys(scan)))

  /**
   * Whether the scan is prepared. One whose filters on partitions Spark has planned since has to be prepared again: it
   * may now equal other scans, which Spark then computes once.
   */
  private def isDone(scan: FileSourceScanExec): Boolean = scan.dataFilters.exists {
    case starter: SkippedFiles =>
      starter.partitionFilters.size == partitionFilters(scan).size &&
      (!ready || starter.skipping.isOf(SkipFiles.withoutSkipping(scan)))
    case _ => false
  }

  private def partitionFilters(scan: FileSourceScanExec): Seq[Expression] =
    if (ready) scan.partitionFilters.filter(_.exists(_.isInstanceOf[PlanExpression[_]])) else Nil

  private def settings = new SkippingSettings(conf)

  private def prepared(skippable: SkippableScan, keys: Seq[InSubqueryExec]): FileSourceScanExec = {
    val scan = skippable.scan
    val relation = scan.relation
    val usable = keys.flatMap(key => skippable.keyColumn(key.child).map(key -> _))
    val filters = new FilterTranslator(skippable.index.columns, conf.caseSensitiveAnalysis)
    val skipping = new ScanSkipping(
      skippable.index,
      filters,
      relation.partitionSchema,
      ScanIdentity(
        scan.canonicalized,
        usable.map { case (key, _) => QueryPlan.normalizeExpressions(key, scan.output) }
      ),
      Option.when(settings.verify)(new SkippedPaths)
    )
    val reasons = new SkippingReasons(skippable, filters).of(usable.map(_._2))
    val starter = SkippedFiles(
      scan.dataFilters.filter(_.exists(_.isInstanceOf[ScalarSubquery])),
      partitionFilters(scan),
      SkippedFilesExec(skipping, reasons),
      skipping
    )
    val bringing = usable.map { case (key, column) =>
      SkippingKeys(key.child, key.plan, key.exprId, column, settings.maxKeys, conf.broadcastTimeout, skipping)
    }
    SkipFiles.announced(
      scan.copy(
        relation = relation.copy(location = new SkippingFileIndex(relation.location, skipping))(relation.sparkSession),
        dataFilters = scan.dataFilters ++ (starter +: bringing)
      )
    )
  }
}

object SkipFiles {

  private def keys(scan: FileSourceScanExec): Seq[InSubqueryExec] = scan.dataFilters.collect {
    case keys: SkippingKeys =>
      InSubqueryExec(keys.child, keys.plan, keys.exprId)
  }

  /**
   * Evaluate a scan's lazy metadata and metrics. Their evaluation takes the scan's lock, which the scan holds while it
   * waits for its keys: printing the plan would wait, too, and adaptive execution prints it before it starts the next
   * stage.
   */
  private def announced(scan: FileSourceScanExec): FileSourceScanExec = {
    val _ = (scan.metadata, scan.metrics)
    scan
  }

  private[plan] def announce(scan: BatchScanExec): Unit = scan.metrics: Unit

  /** The scan as Spark planned it. */
  private def withoutSkipping(scan: FileSourceScanExec): FileSourceScanExec = scan.relation.location match {
    case index: SkippingFileIndex =>
      val relation = scan.relation
      scan.copy(
        relation = relation.copy(location = index.inner)(relation.sparkSession),
        dataFilters = scan.dataFilters.filterNot(_.isInstanceOf[SkippingExpression])
      )
    case _ => scan
  }
}

/**
 * The strategy that gives each scan which knows the statistics of its files an object of its own in the physical plan:
 * Spark filters that object, while copies of the logical plan share theirs.
 */
class PlanIndexedScans(session: SparkSession) extends SparkStrategy {

  private val spark = new DataSourceV2Strategy(session.asInstanceOf[classic.SparkSession])

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case PhysicalOperation(_, _, relation: DataSourceV2ScanRelation) =>
      relation.scan match {
        case scan: IndexedScan =>
          val settings = new SkippingSettings(session.sessionState.conf)
          val reasons = Decision.of(relation).map(decision => s"on $decision")
          val own = relation.copy(scan = scan.planned(reasons, Option.when(settings.verify)(new SkippedPaths)))
          spark(plan.transformUp { case leaf if leaf eq relation => own })
        case _ => Nil
      }
    case _ => Nil
  }
}

/** A scan, as Spark planned it, whose table has an index. */
case class SkippableScan(scan: FileSourceScanExec, index: TableIndex) {

  /** The indexed column whose files can be skipped by keys that this expression is compared with. */
  def keyColumn(expression: Expression): Option[KeyColumn] =
    for {
      attribute <- DynamicFilter.column(expression)
      // A reference to a column may spell it differently from the scan.
      own <- scan.output.find(_.exprId == attribute.exprId)
      column <- index.columns.find(_.name == own.name)
      key = KeyColumn(column.name, column.dataType, expression.dataType)
      _ <- key.encoding
    } yield key
}

object SkippableScan {

  def of(scan: FileSourceScanExec, find: HadoopFsRelation => Option[TableIndex]): Option[SkippableScan] =
    Option(scan.relation)
      .filter(relation => scan.stream.isEmpty && isPlainParquet(relation) && isListedBySpark(relation.location))
      .flatMap(find)
      .map(SkippableScan(scan, _))

  // A subclass may read files differently: without deleted rows, or with other names of columns. Penstock's file system
  // has one that does not. It is compared by name, since each of the two modules works without the other.
  private val PlainParquet = Set(classOf[ParquetFileFormat].getName, "io.penstock.fs.scan.ListedParquet")

  private def isPlainParquet(relation: HadoopFsRelation): Boolean =
    PlainParquet(relation.fileFormat.getClass.getName)

  /** Whether Spark itself lists the files. Other formats list the files of a version. */
  private def isListedBySpark(location: FileIndex): Boolean = location match {
    case _: InMemoryFileIndex | _: CatalogFileIndex => true
    case _ => false
  }
}

/** The reasons for and against skipping a scan's files, in words for readers of its plan. */
private[plan] class SkippingReasons(skippable: SkippableScan, filters: FilterTranslator) {

  /** The reasons, as phrases. */
  def of(keys: Seq[KeyColumn]): Seq[String] = {
    val filtered = columns(skippable.scan.dataFilters.filter(says))
    val joined = keys.map(_.name).distinct.sorted
    val reasons = Option.when(filtered.nonEmpty)(s"by filters on ${filtered.mkString(", ")}").toSeq ++
      Option.when(joined.nonEmpty)(s"by keys of joins on ${joined.mkString(", ")}") ++
      decisions.map(decision => s"on $decision")
    if (reasons.isEmpty) Seq("nothing to skip files by") else reasons
  }

  // Joins add IS NOT NULL filters on any column, which skip next to nothing.
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

/**
 * The last rules before a plan, or with adaptive execution a stage, runs: joins' keys are planned, with and without
 * adaptive execution, and operators may still change.
 */
class SkippingColumnarRule(skipFiles: SkipFiles) extends ColumnarRule {
  private val moveKeys = new PushDynamicFilters(skipFiles)

  override def preColumnarTransitions: Rule[SparkPlan] = { plan =>
    val ready = VerifySkipping(moveKeys(skipFiles(SecondRun(plan))))
    ready.foreach {
      case scan: BatchScanExec => SkipFiles.announce(scan)
      case _ =>
    }
    ready
  }
}

/**
 * Pushes planned [[org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery]] filters from above scans into the
 * scans, which skip files by them. The join applies the same condition to rows, so unusable filters are dropped.
 */
class PushDynamicFilters(skipFiles: SkipFiles) extends Rule[SparkPlan] with PredicateHelper {

  override def apply(plan: SparkPlan): SparkPlan = plan.transform {
    case filter @ FilterExec(condition, child) if splitConjunctivePredicates(condition).exists(isDynamic) =>
      val (dynamic, others) = splitConjunctivePredicates(condition).partition(isDynamic)
      val below = child match {
        // Spark pushes a filter down itself where the side of its keys has a scalar subquery.
        case scan: FileSourceScanExec =>
          skipFiles.skipping(scan.copy(dataFilters = scan.dataFilters.filterNot(isDynamic)), dynamic.flatMap(keys))
        case _ => child
      }
      others.reduceOption(And).fold(below)(rest => filter.copy(condition = rest, child = below))
  }

  private def isDynamic(condition: Expression): Boolean = condition.isInstanceOf[DynamicPruning]

  private def keys(condition: Expression): Option[InSubqueryExec] = condition match {
    case DynamicPruningExpression(in: InSubqueryExec) if isComplete(in.plan) => Some(in)
    case _ => None
  }

  /** Whether all of a subquery's rows are its keys: one of another kind may lack some or all of them. */
  private def isComplete(subquery: BaseSubqueryExec): Boolean = subquery match {
    case ReusedSubqueryExec(inner) => isComplete(inner)
    case _: SubqueryBroadcastExec | _: SubqueryExec => subquery.output.length == 1
    case _ => false
  }
}

/**
 * Turns each separate run for the keys of a join's side, also one of Spark's own, into a subquery, since Spark takes
 * such a run for the query itself. Adaptive execution would then print the whole query's plan whenever the run has
 * planned a stage. Printing a scan takes the scan's lock, which the scan holds while it waits for these keys: a
 * deadlock. A subquery posts its own metrics only. Spark alone has this deadlock (SPARK-57041), so the rule applies to
 * all tables, indexed or not, and with skipping off.
 */
private[plan] object SecondRun extends Rule[SparkPlan] {

  /** The tag on Spark's run with the subquery in its place, so that scans which share a run go on sharing it. */
  private val Tag = TreeNodeTag[SubqueryExec]("io.penstock.skipping.second-run")

  override def apply(plan: SparkPlan): SparkPlan =
    plan.transformAllExpressionsWithPruning(_.containsPattern(PLAN_EXPRESSION)) {
      case waiting: ExecSubqueryExpression =>
        val subquery = asSubquery(waiting.plan)
        if (subquery eq waiting.plan) waiting else waiting.withNewPlan(subquery)
    }

  private def asSubquery(plan: BaseSubqueryExec): BaseSubqueryExec = plan match {
    case reused: ReusedSubqueryExec =>
      val child = asSubquery(reused.child)
      if (child eq reused.child) reused else reused.copy(child = child)
    case run @ SubqueryExec(name, adaptive: AdaptiveSparkPlanExec, _) if !adaptive.isSubquery =>
      // Spark plans subqueries that share a run in several threads.
      run.synchronized(run.getTagValue(Tag).getOrElse {
        // The name distinguishes the two: adaptive plans that differ only in `isSubquery` are equal, and a transformation
        // keeps the former one of two equal nodes.
        val subquery = run.copy(name = s"$name (second run)", child = adaptive.copy(isSubquery = true))
        run.setTagValue(Tag, subquery)
        subquery
      })
    case _ => plan
  }
}
