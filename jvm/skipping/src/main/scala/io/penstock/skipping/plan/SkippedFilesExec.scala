package io.penstock.skipping.plan

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{BaseSubqueryExec, LeafExecNode, SQLExecution, SparkPlan}

/**
 * Tells in EXPLAIN by what a scan skips files, and in the SQL UI what it came to. It runs nothing: a subquery's plan is
 * what a scan, which is a leaf, can show below itself.
 *
 * @param reasons
 *   for people: by what files are skipped, and by what not and why
 */
case class SkippedFilesExec(@transient skipping: ScanSkipping, reasons: Seq[String])
    extends BaseSubqueryExec
    with LeafExecNode {

  import SkippedFilesExec._

  override def name: String = "skipping"

  // There is none; Spark looks at it for EXPLAIN FORMATTED only, where a subquery itself is printed as nothing.
  override def child: SparkPlan = this

  override def output: Seq[Attribute] = Nil
  override def outputPartitioning: Partitioning = UnknownPartitioning(0)
  override def outputOrdering: Seq[SortOrder] = Nil

  override lazy val metrics: Map[String, SQLMetric] = Map(
    FilesListed -> SQLMetrics.createMetric(sparkContext, "files before skipping"),
    FilesSkipped -> SQLMetrics.createMetric(sparkContext, "files skipped"),
    BytesSkipped -> SQLMetrics.createSizeMetric(sparkContext, "size of files skipped"),
    KeyIntervals -> SQLMetrics.createMetric(sparkContext, "intervals of join keys"),
    SelectTime -> SQLMetrics.createNanoTimingMetric(sparkContext, "time to select files")
  )

  /** Called in the thread that runs the query. Adds to what was told before: equal scans may share this node. */
  def record(selection: FileSelection, intervals: Long, nanos: Long): Unit = {
    longMetric(FilesListed) += selection.files
    longMetric(FilesSkipped) += selection.skipped.size
    longMetric(BytesSkipped) += selection.bytesSkipped
    longMetric(KeyIntervals) += intervals
    longMetric(SelectTime) += nanos
    val execution = sparkContext.getLocalProperty(SQLExecution.EXECUTION_ID_KEY)
    SQLMetrics.postDriverMetricUpdates(sparkContext, execution, metrics.values.toSeq)
  }

  override def simpleString(maxFields: Int): String = s"SkippedFiles [${reasons.mkString("; ")}]"

  // Equal as the scans' identities are, which is canonical already. Of one side of a join the query's own scan knows
  // reasons that the copy its keys come from does not: the broadcast is found again all the same.
  override protected def doCanonicalize(): SparkPlan = copy(reasons = Nil)

  override def executeCollect(): Array[InternalRow] = Array.empty

  override protected def doExecute(): RDD[InternalRow] = sparkContext.emptyRDD
}

object SkippedFilesExec {

  /** Names of the metrics. */
  val FilesListed = "filesListed"
  val FilesSkipped = "filesSkipped"
  val BytesSkipped = "bytesSkipped"
  val KeyIntervals = "keyIntervals"
  val SelectTime = "selectTime"
}
