package io.penstock.skipping

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.HadoopFsRelation
import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}

import io.penstock.skipping.index.{IndexCatalog, RefreshOnWrite, TableIndex}
import io.penstock.skipping.join.JoinSkipping
import io.penstock.skipping.plan.{SkipFiles, SkippingColumnarRule}
import io.penstock.skipping.sql.SkippingParser

/** `spark.sql.extensions=io.penstock.skipping.SkippingExtension`: files that cannot match are never read. */
class SkippingExtension extends (SparkSessionExtensions => Unit) {

  override def apply(extensions: SparkSessionExtensions): Unit = {
    SkippingSettings.register()
    extensions.injectParser((_, delegate) => SkippingParser.around(delegate))
    extensions.injectColumnar(new RefreshOnWrite(_))
    extensions.injectOptimizerRule(lastOfAll)
    // With adaptive execution, so that EXPLAIN tells of it before the query has run.
    extensions.injectQueryStagePrepRule(_ => new SkipFiles(index, ready = false))
    extensions.injectColumnar(_ => new SkippingColumnarRule(new SkipFiles(index, ready = true)))
  }

  private def index(relation: HadoopFsRelation): Option[TableIndex] = IndexCatalog.find(relation.sparkSession, relation)

  /**
   * Joins' sides are as they will be run only after all of the optimizer's rules, where no rule can be injected: it has
   * a place for the user's own there. A session asks for injected rules each time it makes its list of rules, before it
   * looks at that place; the list of a cloned session is a copy.
   */
  private def lastOfAll(session: SparkSession): Rule[LogicalPlan] = {
    val own = session.experimental
    if (!own.extraOptimizations.exists(_.isInstanceOf[JoinSkipping])) {
      own.extraOptimizations = own.extraOptimizations :+ new JoinSkipping(_.relation match {
        case relation: HadoopFsRelation => index(relation)
        case _ => None
      })
    }
    Unchanged
  }

  private object Unchanged extends Rule[LogicalPlan] {
    override def apply(plan: LogicalPlan): LogicalPlan = plan
  }
}
