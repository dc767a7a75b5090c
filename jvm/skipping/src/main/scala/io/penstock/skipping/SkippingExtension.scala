package io.penstock.skipping

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.execution.datasources.HadoopFsRelation

import io.penstock.skipping.index.{IndexCatalog, TableIndex}
import io.penstock.skipping.join.{JoinSkipping, LastOptimizerRule}
import io.penstock.skipping.model.SkippingSettings
import io.penstock.skipping.plan.{ExpectIndexes, RefreshOnWrite, SkipFiles, SkippingColumnarRule}
import io.penstock.skipping.sql.SkippingParser

/** `spark.sql.extensions=io.penstock.skipping.SkippingExtension`: files that cannot match are never read. */
class SkippingExtension extends (SparkSessionExtensions => Unit) {

  override def apply(extensions: SparkSessionExtensions): Unit = {
    SkippingSettings.register()
    extensions.injectParser((_, delegate) => SkippingParser.around(delegate))
    extensions.injectColumnar(new RefreshOnWrite(_))
    // Not to check anything: it is the one place that sees each query once, before all the work of optimizing it.
    extensions.injectCheckRule(new ExpectIndexes(_))
    extensions.injectOptimizerRule(session => new LastOptimizerRule(session, new JoinSkipping(index)))
    // With adaptive execution, so that EXPLAIN tells of it before the query has run.
    extensions.injectQueryStagePrepRule(_ => new SkipFiles(index, ready = false))
    extensions.injectColumnar(_ => new SkippingColumnarRule(new SkipFiles(index, ready = true)))
  }

  private def index(relation: HadoopFsRelation): Option[TableIndex] = IndexCatalog.find(relation.sparkSession, relation)
}
