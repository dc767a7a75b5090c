package io.penstock.skipping.index

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.AttributeSet
import org.apache.spark.sql.catalyst.plans.logical.{Filter, Join, LogicalPlan}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}

import io.penstock.skipping.SkippingSettings

/** Called when a query has been analyzed: what it is going to ask of indexes is fetched while Spark optimizes it. */
class ExpectIndexes(session: SparkSession) extends (LogicalPlan => Unit) {

  override def apply(plan: LogicalPlan): Unit =
    if (new SkippingSettings(session.sessionState.conf).enabled) {
      // A column that has another name by then is missed, and waited for when it is asked.
      val asked = AttributeSet.fromAttributeSets(plan.collectWithSubqueries {
        case Filter(condition, _) => condition.references
        case Join(_, _, _, Some(condition), _) => condition.references
      })
      plan
        .collectWithSubqueries { case relation @ LogicalRelation(files: HadoopFsRelation, _, _, _, _) =>
          (files, relation.output.filter(asked.contains).map(_.name).toSet)
        }
        .foreach { case (files, columns) => IndexCatalog.expect(session, files, columns) }
    }
}
