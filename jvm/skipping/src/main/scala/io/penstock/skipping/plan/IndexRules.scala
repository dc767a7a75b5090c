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

/** Has writes to a table that has an index end with its refresh, where `refresh.on.write` is set. */
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

/** Runs a write, then refreshes the index of the table it went to. The refresh never fails the write. */
private case class RefreshAfterExec(@transient spark: SparkSession, target: Path, child: SparkPlan)
    extends UnaryExecNode {

  import RefreshAfterExec._

  override def output: Seq[Attribute] = child.output

  // Not the node's own: its lock would be held for as long as the write takes, and whoever tells of the plan needs it.
  @transient private val once = new Once(write())

  private def written: Array[InternalRow] = once.rows

  private def write(): Array[InternalRow] = {
    // An overwrite may delete the index with the data: then it is built anew, as it was.
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

  /** Rows that are made once, however often they are asked for. */
  private class Once(make: => Array[InternalRow]) {
    lazy val rows: Array[InternalRow] = make
  }

  private val log = LoggerFactory.getLogger(classOf[RefreshOnWrite])
}
