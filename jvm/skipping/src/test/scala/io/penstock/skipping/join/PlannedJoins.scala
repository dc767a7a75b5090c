package io.penstock.skipping.join

import java.util

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, DynamicPruningSubquery}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.scalatest.Suite

import io.penstock.skipping.LocalSpark
import io.penstock.skipping.index.{ColumnSummary, TableIndex}
import io.penstock.skipping.model.{FileFilter, IndexedColumn}
import io.penstock.skipping.plan.{SkipFiles, SkippingColumnarRule}

/** A session over tables whose indexes are given rather than built, and say nothing of any file. */
trait PlannedJoins extends LocalSpark { this: Suite =>

  // Not the extension itself, which has the rule too, with the indexes there are.
  override protected def settings: Map[String, String] =
    Map(
      "spark.sql.extensions" -> classOf[PlannedJoins.Scans].getName,
      // Compiling these queries takes longer than running them.
      "spark.sql.codegen.wholeStage" -> "false",
      "spark.sql.codegen.factoryMode" -> "NO_CODEGEN"
    )

  override def beforeAll(): Unit = {
    super.beforeAll()
    PlannedJoins.find = indexOf
  }

  /** By table and column: the share of files that hold a random key. */
  protected def filesPerKey: Map[String, Map[String, Double]]

  protected val rule: JoinSkipping = new JoinSkipping(indexOf)

  protected def tableName(relation: LogicalRelation): String = relation.catalogTable.fold("")(_.identifier.table)

  private def indexOf(relation: HadoopFsRelation): Option[TableIndex] = {
    // Of a table with its partitions pruned, the roots are the partitions.
    val directories = relation.location.rootPaths.flatMap(_.toUri.getPath.split('/')).toSet
    filesPerKey.collectFirst { case (table, columns) if directories(table) => columns }.map { columns =>
      new ToldIndex(columns.map { case (name, share) =>
        name -> ColumnSummary(IndexedColumn(name, relation.schema(name).dataType), share, bounded = 100)
      })
    }
  }

  protected def optimized(sql: String): LogicalPlan = spark.sql(sql).queryExecution.optimizedPlan

  /** The filters right above scans: table, column, and the filter. */
  protected def filters(plan: LogicalPlan): Seq[(String, String, DynamicPruningSubquery)] = plan.collectWithSubqueries {
    case Filter(condition, relation: LogicalRelation) =>
      condition.collect { case filter: DynamicPruningSubquery =>
        (
          tableName(relation),
          filter.pruningKey.collectFirst { case column: AttributeReference => column.name }.get,
          filter
        )
      }
  }.flatten

  protected def filtered(plan: LogicalPlan): Set[String] =
    filters(plan).map { case (table, column, _) => s"$table.$column" }.toSet

  protected def allFilters(plan: LogicalPlan): Seq[DynamicPruningSubquery] =
    plan.collectWithSubqueries { case node =>
      node.expressions.flatMap(_.collect { case found: DynamicPruningSubquery => found })
    }.flatten

  protected def decisions(plan: LogicalPlan): Map[String, Seq[Decision]] =
    plan
      .collectWithSubqueries { case relation: LogicalRelation => tableName(relation) -> Decision.of(relation) }
      .groupMap(_._1)(_._2)
      .map { case (table, made) => table -> made.flatten }
}

object PlannedJoins {

  /** Of the suite at work: they run one after the other. */
  @volatile private var find: HadoopFsRelation => Option[TableIndex] = _ => None

  /**
   * Takes the filters to the scans, as the extension does. Left where Spark puts them, a query might wait for ever for
   * keys of a run beside it: see `SecondRun`.
   */
  class Scans extends (SparkSessionExtensions => Unit) {
    override def apply(extensions: SparkSessionExtensions): Unit =
      extensions.injectColumnar(_ => new SkippingColumnarRule(new SkipFiles(find(_), ready = true)))
  }
}

private class ToldIndex(columnSummaries: Map[String, ColumnSummary]) extends TableIndex {
  override def root: String = "given"
  override def files: Int = 100
  override def columns: Seq[IndexedColumn] = columnSummaries.values.map(_.column).toSeq
  override def column(name: String): Option[ColumnSummary] = columnSummaries.get(name)
  override def find(directory: String, name: String, length: Long, modificationMs: Long): Int = -1
  override def select(filter: FileFilter): util.BitSet = {
    val all = new util.BitSet
    all.set(0, files)
    all
  }
}
