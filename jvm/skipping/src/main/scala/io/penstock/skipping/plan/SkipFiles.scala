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
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.catalyst.trees.TreePattern.PLAN_EXPRESSION
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.datasources.{CatalogFileIndex, FileIndex, HadoopFsRelation, InMemoryFileIndex}

import io.penstock.skipping.index.TableIndex
import io.penstock.skipping.join.{Decision, DynamicFilter}
import io.penstock.skipping.model.{FileFilter, FilterTranslator, KeyColumn, SkippingSettings}

/**
 * Has the file scans of tables that have an index skip files by their own filters. Idempotent.
 *
 * @param find
 *   the index of a scan's table, if it has one
 * @param ready
 *   whether plans are ready to run; before that, Spark has yet to plan where filters on partitions come from
 */
class SkipFiles(find: HadoopFsRelation => Option[TableIndex], ready: Boolean) extends Rule[SparkPlan] {

  override def apply(plan: SparkPlan): SparkPlan =
    if (!settings.enabled) plan
    else plan.transform { case scan: FileSourceScanExec if !isDone(scan) => skipping(scan, Nil) }

  /** The scan skipping by these keys too. */
  def skipping(scan: FileSourceScanExec, keys: Seq[InSubqueryExec]): FileSourceScanExec =
    SkippableScan.of(SkipFiles.withoutSkipping(scan), find).fold(scan)(prepared(_, keys ++ SkipFiles.keys(scan)))

  /**
   * Not where Spark has planned the filters on partitions since: with them the scan equals others that it did not equal
   * before, and what is computed from it is computed once.
   */
  private def isDone(scan: FileSourceScanExec): Boolean = scan.dataFilters.exists {
    case told: SkippedFiles =>
      told.partitionFilters.size == partitionFilters(scan).size &&
      (!ready || told.skipping.isOf(SkipFiles.withoutSkipping(scan)))
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
    val told = SkippedFiles(
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
        dataFilters = scan.dataFilters ++ (told +: bringing)
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
   * The scan with all that is told of it in place. What is computed when first asked for takes the scan's lock, which
   * is held while it waits for its keys: whoever tells of the plan meanwhile would wait with it, and adaptive execution
   * tells of it before it starts what comes next.
   */
  private def announced(scan: FileSourceScanExec): FileSourceScanExec = {
    val _ = (scan.metadata, scan.metrics)
    scan
  }

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

/** A scan, as Spark planned it, whose table has an index. */
case class SkippableScan(scan: FileSourceScanExec, index: TableIndex) {

  /** The indexed column whose files can be skipped by keys that this expression is compared with. */
  def keyColumn(expression: Expression): Option[KeyColumn] =
    for {
      attribute <- DynamicFilter.column(expression)
      // The scan's own name of it: what refers to a column may spell it otherwise.
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

  // A subclass may read files otherwise: with deleted rows left out, or columns under other names. Penstock's file system
  // has one that does not; by its name, since each of the two is there without the other.
  private val PlainParquet = Set(classOf[ParquetFileFormat].getName, "io.penstock.fs.scan.ListedParquet")

  private def isPlainParquet(relation: HadoopFsRelation): Boolean =
    PlainParquet(relation.fileFormat.getClass.getName)

  /** Other formats' own indexes (of files that count at some version) are left alone. */
  private def isListedBySpark(location: FileIndex): Boolean = location match {
    case _: InMemoryFileIndex | _: CatalogFileIndex => true
    case _ => false
  }
}

/** By what a scan's files are skipped, and by what not and why: for people who read its plan. */
private[plan] class SkippingReasons(skippable: SkippableScan, filters: FilterTranslator) {

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

/**
 * Where a plan, or with adaptive execution a stage, is ready to run: the place where joins' keys have been planned,
 * with and without adaptive execution, and operators can still be changed.
 */
class SkippingColumnarRule(skipFiles: SkipFiles) extends ColumnarRule {
  private val moveKeys = new PushDynamicFilters(skipFiles)

  override def preColumnarTransitions: Rule[SparkPlan] = plan => VerifySkipping(moveKeys(skipFiles(SecondRun(plan))))
}

/**
 * Takes the filters of [[org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery]], once they are planned,
 * from above scans to the scans themselves, which skip files by them; as conditions on rows they would say nothing that
 * the join does not say. What cannot be used goes away.
 */
class PushDynamicFilters(skipFiles: SkipFiles) extends Rule[SparkPlan] with PredicateHelper {

  override def apply(plan: SparkPlan): SparkPlan = plan.transform {
    case filter @ FilterExec(condition, child) if splitConjunctivePredicates(condition).exists(isDynamic) =>
      val (dynamic, others) = splitConjunctivePredicates(condition).partition(isDynamic)
      val below = child match {
        // Spark pushes a filter down, too, where the side that its keys come from has a scalar subquery.
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

  /** Whether all of a subquery's rows are its keys: one of another kind may leave some out, or give none at all. */
  private def isComplete(subquery: BaseSubqueryExec): Boolean = subquery match {
    case ReusedSubqueryExec(inner) => isComplete(inner)
    case _: SubqueryBroadcastExec | _: SubqueryExec => subquery.output.length == 1
    case _ => false
  }
}

/**
 * Makes a subquery of each run beside the query for the keys of a join's side, whoever asked for it: Spark takes such a
 * run for the query itself. Adaptive execution would then print the whole query's plan each time the run has planned a
 * stage. Printing a scan takes the scan's lock, and the scan that waits for these keys holds it: neither would ever go
 * on. A subquery posts its own metrics only. Spark alone hangs in this way (SPARK-57041), so the rule applies to all
 * tables, indexed or not, and with skipping off.
 */
private[plan] object SecondRun extends Rule[SparkPlan] {

  /** On Spark's run: the subquery in its place, so that scans which share one run go on sharing it. */
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
      // Subqueries that share a run are planned in threads of their own.
      run.synchronized(run.getTagValue(Tag).getOrElse {
        // The name tells the two apart: adaptive plans that differ only in `isSubquery` are equal, and of equal nodes
        // a transformation keeps the former one.
        val subquery = run.copy(name = s"$name (second run)", child = adaptive.copy(isSubquery = true))
        run.setTagValue(Tag, subquery)
        subquery
      })
    case _ => plan
  }
}
