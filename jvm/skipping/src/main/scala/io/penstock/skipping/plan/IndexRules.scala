package io.penstock.skipping.plan

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, Join, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.command.DataWritingCommandExec
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, InsertIntoHadoopFsRelationCommand, LogicalRelation}
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan, UnaryExecNode}
import org.slf4j.LoggerFactory

import io.penstock.skipping.build.{IndexWriter, IndexedTable}
import io.penstock.skipping.index.{IndexCatalog, IndexStore, Manifest, TableListing, TablePath}
import io.penstock.skipping.model.SkippingSettings

/**
 * A check rule, which Spark calls after the analysis of a query: it prefetches the query's indexes while Spark
 * optimizes the query. Never fails a query.
 */
class ExpectIndexes(session: SparkSession) extends (LogicalPlan => Unit) {

  override def apply(plan: LogicalPlan): Unit =
    if (new SkippingSettings(session.sessionState.conf).enabled) {
      // A renamed column is missed; the query then waits for its index.
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

/** Lets a write to a table with an index end with a refresh of the index, where `refresh.on.write` is set. */
class RefreshOnWrite(spark: SparkSession) extends ColumnarRule {

  override val preColumnarTransitions: Rule[SparkPlan] = new Rule[SparkPlan] {
    override def apply(plan: SparkPlan): SparkPlan = plan match {
      case write @ DataWritingCommandExec(insert: InsertIntoHadoopFsRelationCommand, _)
          if insert.fileFormat.isInstanceOf[ParquetFileFormat] && new SkippingSettings(conf).refreshOnWrite =>
        RefreshAfterExec(spark, insert.outputPath, write)
      case other => other
    }
  }
}

/** Runs a write, then refreshes the index of its table. A failed refresh is logged and never fails the write. */
private case class RefreshAfterExec(@transient spark: SparkSession, target: Path, child: SparkPlan)
    extends UnaryExecNode {

  import RefreshAfterExec._

  override def output: Seq[Attribute] = child.output

  // A lazy value of the node would hold the node's lock during the write, and printing the plan needs that lock.
  @transient private val once = new Once(write())

  private def written: Array[InternalRow] = once.rows

  private def write(): Array[InternalRow] = {
    // An overwrite may delete the index with the data: then this builds it again with the same columns.
    val former = quietly(table())
    val rows = child.executeCollect()
    for ((root, manifest) <- former.flatten) quietly {
      val writer = new IndexWriter(spark, root)
      if (writer.refresh().isEmpty) {
        val listed = TableListing.list(root, spark.sessionState.newHadoopConf())
        writer.build(manifest.plan, manifest.leftOut, listed)
      }
    }
    rows
  }

  private def table(): Option[(Path, Manifest)] = {
    val conf = spark.sessionState.newHadoopConf()
    TablePath
      .candidates(IndexedTable.qualified(spark, target))
      .iterator
      .flatMap(root => new IndexStore(root, conf).read().map(root -> _))
      .nextOption()
  }

  private def quietly[A](action: => A): Option[A] =
    try Some(action)
    catch {
      case NonFatal(e) =>
        RefreshAfterExec.log.warn(s"The skipping index of $target was not refreshed; what was written is whole: $e", e)
        None
    }

  override def executeCollect(): Array[InternalRow] = written

  override protected def doExecute(): RDD[InternalRow] = sparkContext.parallelize(written.toSeq, 1)

  override protected def withNewChildInternal(child: SparkPlan): SparkPlan = copy(child = child)
}

private object RefreshAfterExec {

  /** Rows that are computed once. */
  private class Once(make: => Array[InternalRow]) {
    lazy val rows: Array[InternalRow] = make
  }

  private val log = LoggerFactory.getLogger(classOf[RefreshOnWrite])
}
