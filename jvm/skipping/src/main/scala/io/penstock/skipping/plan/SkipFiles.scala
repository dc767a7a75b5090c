package io.penstock.skipping.plan

import org.apache.spark.sql.catalyst.expressions.{AttributeSeq, Expression, PlanExpression}
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.datasources.HadoopFsRelation

import io.penstock.skipping.SkippingSettings
import io.penstock.skipping.filter.StaticFilters
import io.penstock.skipping.index.TableIndex

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
    val filters = new StaticFilters(skippable.index.columns, conf.caseSensitiveAnalysis)
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
