package io.penstock.skipping.plan

import scala.util.control.NonFatal

import org.apache.iceberg.spark.source.IndexedQueryScan
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, TypedImperativeAggregate}
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, ScalarSubquery, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, Filter, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.SCALAR_SUBQUERY
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation

import io.penstock.skipping.model.SkippingSettings

/**
 * An optimizer rule that gives the same columns to scans of one Iceberg table in scalar subqueries about the same rows,
 * so that Spark computes these subqueries together and reads the table once.
 *
 * Spark's own rule (`MergeScalarSubqueries`) merges equal scans only. The columns of a scan of the second version of
 * data sources are pruned before that rule runs, those of files in Parquet after it: without this rule Spark reads the
 * files once, and an Iceberg table once for each subquery (SPARK-40259).
 */
object SubqueryScans extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!plan.containsPattern(SCALAR_SUBQUERY) || !new SkippingSettings(conf).enabled || !isMerging) plan
    else
      try {
        val columns = columnsRead(plan)
        if (columns.isEmpty) plan
        else
          plan.transformAllExpressions { case subquery: ScalarSubquery =>
            Question.of(subquery).flatMap(columns.get).fold[Expression](subquery) { names =>
              subquery.withNewPlan(subquery.plan.transform { case scan: DataSourceV2ScanRelation =>
                widened(scan, names)
              })
            }
          }
      } catch {
        // A LinkageError where Iceberg is another one than this is made for.
        case e @ (NonFatal(_) | _: LinkageError) =>
          logWarning("Each scalar subquery reads its Iceberg table itself", e)
          plan
      }

  /** The rule has another name since Spark 4.2. */
  private def isMerging: Boolean =
    !conf.optimizerExcludedRules.exists(rules => Seq("MergeScalarSubqueries", "MergeSubplans").exists(rules.contains))

  /** What subqueries have in common that Spark computes together if their scans have the same columns. */
  private final case class Question(
      table: LogicalPlan,
      rows: IndexedQueryScan.Rows,
      conditions: Seq[Expression],
      aggregation: Aggregation
  )

  private object Question {

    /** None for a subquery of another form than aggregates of the rows of one scan. */
    def of(subquery: ScalarSubquery): Option[Question] = subquery.plan match {
      case aggregate: Aggregate if subquery.outerAttrs.isEmpty && aggregate.groupingExpressions.isEmpty =>
        read(aggregate.child).flatMap { case (scan, conditions) =>
          val functions = aggregate.aggregateExpressions.flatMap(_.collect { case one: AggregateExpression => one })
          for {
            rows <- IndexedQueryScan.rows(scan.scan)
            if functions.nonEmpty && !functions.exists(_.isDistinct) && isWhole(scan)
            if (aggregate.aggregateExpressions ++ conditions).forall(_.deterministic)
          } yield Question(scan.relation.canonicalized, rows, conditions.map(byName), Aggregation.of(functions))
        }
      case _ => None
    }

    private def read(plan: LogicalPlan): Option[(DataSourceV2ScanRelation, Seq[Expression])] = plan match {
      case scan: DataSourceV2ScanRelation => Some((scan, Nil))
      case Project(_, child) => read(child)
      case Filter(condition, child) =>
        read(child).map { case (scan, conditions) => (scan, conditions :+ condition) }
      case _ => None
    }

    /** Whether no part of a struct is read alone, and nothing that is no column of the table. */
    private def isWhole(scan: DataSourceV2ScanRelation): Boolean =
      scan.output.forall(column =>
        scan.relation.output.exists(own => own.name == column.name && own.dataType == column.dataType)
      )

    private def byName(condition: Expression): Expression =
      condition.transform { case column: Attribute => UnresolvedAttribute(Seq(column.name)) }.canonicalized
  }

  /** The way in which Spark aggregates; it does not merge subqueries of different ways. */
  sealed private trait Aggregation

  private object Aggregation {
    private case object Hash extends Aggregation
    private case object ObjectHash extends Aggregation
    private case object Sort extends Aggregation

    def of(functions: Seq[AggregateExpression]): Aggregation = {
      val buffers = functions.flatMap(_.aggregateFunction.aggBufferAttributes)
      if (buffers.forall(buffer => UnsafeRow.isMutable(buffer.dataType))) Hash
      else if (functions.exists(_.aggregateFunction.isInstanceOf[TypedImperativeAggregate[_]])) ObjectHash
      else Sort
    }
  }

  /** The columns that the subqueries of a question read together, where they differ. */
  private def columnsRead(plan: LogicalPlan): Map[Question, Set[String]] = {
    val asked = for {
      expression <- plan.flatMap(_.expressions)
      subquery <- expression.collect { case one: ScalarSubquery => one }
      question <- Question.of(subquery).toSeq
      scan <- subquery.plan.collect { case scan: DataSourceV2ScanRelation => scan }
    } yield question -> scan.output.map(_.name).toSet
    asked.groupMap(_._1)(_._2).collect {
      case (question, read) if read.distinct.size > 1 => question -> read.reduce(_ ++ _)
    }
  }

  private def widened(scan: DataSourceV2ScanRelation, names: Set[String]): LogicalPlan = {
    val output = scan.relation.output.filter(column => names(column.name)).map { column =>
      scan.output.find(_.name == column.name).getOrElse(column)
    }
    IndexedQueryScan
      .reading(scan.scan, output.map(_.name))
      .fold[LogicalPlan](scan) { wide =>
        // Spark has derived both from the columns that were read.
        scan.copy(scan = wide, output = output, keyGroupedPartitioning = None, ordering = None)
      }
  }
}
