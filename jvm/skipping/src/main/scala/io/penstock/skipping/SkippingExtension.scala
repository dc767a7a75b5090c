package io.penstock.skipping

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.execution.datasources.HadoopFsRelation

import io.penstock.skipping.index.{IndexCatalog, TableIndex}
import io.penstock.skipping.join.{JoinSkipping, LastOptimizerRule}
import io.penstock.skipping.model.SkippingSettings
import io.penstock.skipping.plan.{
  ExpectIndexes,
  IndexIcebergScans,
  LateFilters,
  PlanIndexedScans,
  RefreshOnWrite,
  SkipFiles,
  SkippingColumnarRule,
  StageStatistics,
  SubqueryScans
}
import io.penstock.skipping.sql.SkippingParser

/**
 * `spark.sql.extensions=io.penstock.skipping.SkippingExtension`: scans never read files that cannot match, and SQL has
 * the statements about indexes and layouts. A failure of skipping never fails a query, which then reads all files.
 */
class SkippingExtension extends (SparkSessionExtensions => Unit) {

  override def apply(extensions: SparkSessionExtensions): Unit = {
    SkippingSettings.register()
    extensions.injectParser((_, delegate) => SkippingParser.around(delegate))
    extensions.injectColumnar(new RefreshOnWrite(_))
    // This checks nothing: it is the only hook that sees each query once, before its optimization.
    extensions.injectCheckRule(new ExpectIndexes(_))
    extensions.injectPreCBORule(_ => IndexIcebergScans.OfTables)
    extensions.injectPreCBORule(_ => LateFilters)
    extensions.injectPreCBORule(_ => SubqueryScans)
    extensions.injectPlannerStrategy(new PlanIndexedScans(_))
    extensions.injectOptimizerRule(
      new LastOptimizerRule(_, LateFilters, IndexIcebergScans.OfScans, new JoinSkipping(index))
    )
    extensions.injectRuntimeOptimizerRule(_ => StageStatistics)
    // With adaptive execution, this shows skipping in EXPLAIN before the query has run.
    extensions.injectQueryStagePrepRule(_ => new SkipFiles(index, ready = false))
    extensions.injectColumnar(_ => new SkippingColumnarRule(new SkipFiles(index, ready = true)))
  }

  private def index(relation: HadoopFsRelation): Option[TableIndex] = IndexCatalog.find(relation.sparkSession, relation)
}
