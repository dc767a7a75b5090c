package io.penstock.skipping.plan

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.iceberg.spark.source.{IndexedQueryScan, IndexedSparkTable}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeSet, DynamicPruningSubquery}
import org.apache.spark.sql.catalyst.plans.logical.{Command, Filter, Join, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.DYNAMIC_PRUNING_SUBQUERY
import org.apache.spark.sql.execution.command.DataWritingCommandExec
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2Relation, DataSourceV2ScanRelation}
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

/**
 * Optimizer rules that give scans of Iceberg tables the statistics that the manifests have of the columns in filters
 * and joins, to skip data files by the keys of joins, and for Spark's estimates.
 */
object IndexIcebergScans {

  // By name, so that Iceberg's classes are needed only where its tables are.
  private val PlainTable = "org.apache.iceberg.spark.source.SparkTable"
  private val PlainScan = "org.apache.iceberg.spark.source.SparkBatchQueryScan"

  /** Before Spark plans scans and reorders joins by their statistics. */
  object OfTables extends Rule[LogicalPlan] {

    override def apply(plan: LogicalPlan): LogicalPlan = plan match {
      case _ if !conf.cboEnabled => plan
      // What a command changes stays equal to the relations of cached queries, which Spark then refreshes.
      case command: Command =>
        command.mapChildren {
          case changed: DataSourceV2Relation => changed
          case query => indexed(query)
        }
      case query => indexed(query)
    }

    private def indexed(query: LogicalPlan): LogicalPlan = {
      lazy val compared = columnsCompared(query)
      query.transform {
        case relation: DataSourceV2Relation if relation.table.getClass.getName == PlainTable =>
          val indexed = possibly(IndexedSparkTable.of(relation.table, names(relation, compared)))
          indexed.fold(relation)(table => relation.copy(table = table))
      }
    }
  }

  /** For the scans that are left, as those of snapshots and branches, when everything else is planned. */
  object OfScans extends Rule[LogicalPlan] {

    override def apply(plan: LogicalPlan): LogicalPlan = {
      lazy val compared = columnsCompared(plan)
      val scanned = plan.transform {
        case relation: DataSourceV2ScanRelation if relation.scan.getClass.getName == PlainScan =>
          val indexed = possibly(IndexedQueryScan.of(relation.scan, names(relation, compared)))
          indexed.fold(relation)(scan => relation.copy(scan = scan))
      }
      // A side that Spark prunes partitions by has to stay equal to its copy in the plan.
      scanned.transformAllExpressionsWithPruning(_.containsPattern(DYNAMIC_PRUNING_SUBQUERY)) {
        case filter: DynamicPruningSubquery => filter.withNewPlan(apply(filter.plan))
      }
    }
  }

  private val log = LoggerFactory.getLogger(getClass)

  /** None also where Iceberg is another one than this is made for. */
  private def possibly[A](indexed: => Option[A]): Option[A] =
    try indexed
    catch {
      case e @ (NonFatal(_) | _: LinkageError) =>
        log.warn("Data files of an Iceberg table cannot be skipped by the keys of joins", e)
        None
    }

  private def names(relation: LogicalPlan, compared: AttributeSet): Seq[String] =
    relation.output.filter(compared.contains).map(_.name)

  /** The columns in conditions of filters and joins, also those that have other names there. */
  private def columnsCompared(plan: LogicalPlan): AttributeSet = {
    val conditions = AttributeSet.fromAttributeSets(plan.collect {
      case Filter(condition, _) => condition.references
      case Join(_, _, _, Some(condition), _) => condition.references
    })
    val renamed = plan.flatMap(_.expressions).collect { case alias: Alias => alias.toAttribute -> alias.references }
    def origins(known: AttributeSet): AttributeSet = {
      val more = known ++
        AttributeSet.fromAttributeSets(renamed.collect { case (name, from) if known.contains(name) => from })
      if (more.size == known.size) known else origins(more)
    }
    origins(conditions)
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
