package io.penstock.skipping.plan

import java.util.concurrent.atomic.LongAdder
import java.util.concurrent.{Callable, ExecutionException, Executors, TimeUnit, TimeoutException}

import org.apache.spark.internal.Logging
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.{Attribute, ExprId, Expression, Literal, Predicate, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.catalyst.trees.UnaryLike
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{
  BaseSubqueryExec,
  ExecSubqueryExpression,
  LeafExecNode,
  ReusedSubqueryExec,
  SQLExecution,
  SparkPlan
}

import io.penstock.skipping.model.KeyColumn

/**
 * An expression among a scan's data filters, which Spark calls when the scan is about to run, since it first waits for
 * the subqueries of an operator's expressions. As a filter on rows it is always true.
 */
sealed abstract class SkippingExpression extends ExecSubqueryExpression with Predicate {
  def skipping: ScanSkipping
  override def nullable: Boolean = false
  override def eval(input: InternalRow): Any = true
  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = Literal.TrueLiteral.genCode(ctx)
}

/**
 * The expression that starts a scan's skipping, with the node of its metrics, and with those of its filters that
 * contain subqueries and then have their results. Each scan has one.
 *
 * @param dataFilters
 *   filters that compare columns with results of subqueries
 * @param partitionFilters
 *   filters by which the scan drops partitions after it has listed its files
 */
case class SkippedFiles(
    dataFilters: Seq[Expression],
    partitionFilters: Seq[Expression],
    plan: BaseSubqueryExec,
    @transient skipping: ScanSkipping
) extends SkippingExpression {

  // Nothing refers to this ID, and a new one each time would make equal plans different.
  override def exprId: ExprId = ExprId(0)

  override def children: Seq[Expression] = dataFilters ++ partitionFilters

  // Spark then waits for the subqueries inside the filters; the selection of files, later, reads their results.
  override def updateResult(): Unit = SkippedFiles.node(plan).foreach(skipping.start(_, dataFilters, partitionFilters))

  override def withNewPlan(plan: BaseSubqueryExec): SkippedFiles = copy(plan = plan)

  override def toString: String = plan.simpleString(Int.MaxValue)

  override lazy val canonicalized: Expression = SkippedFiles(
    dataFilters.map(_.canonicalized),
    partitionFilters.map(_.canonicalized),
    plan.canonicalized.asInstanceOf[BaseSubqueryExec],
    null
  )

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): Expression =
    copy(dataFilters = newChildren.take(dataFilters.size), partitionFilters = newChildren.drop(dataFilters.size))
}

object SkippedFiles {
  private def node(plan: BaseSubqueryExec): Option[SkippedFilesExec] = plan match {
    case node: SkippedFilesExec => Some(node)
    case ReusedSubqueryExec(inner) => node(inner)
    case _ => None
  }
}

/**
 * The expression that brings the keys of a join: the scan skips files that hold none of them in `child`.
 *
 * @param plan
 *   Spark's own subquery, one column; its rows are the keys
 * @param limit
 *   the most intervals of keys; more keys are compressed
 * @param patience
 *   the most seconds to wait for the keys; then the scan goes on without them
 */
case class SkippingKeys(
    child: Expression,
    plan: BaseSubqueryExec,
    exprId: ExprId,
    column: KeyColumn,
    limit: Int,
    patience: Long,
    @transient skipping: ScanSkipping
) extends SkippingExpression
    with UnaryLike[Expression] {

  override def updateResult(): Unit =
    for {
      rows <- SubqueryTimeout.rows(plan, patience)
      encoding <- column.encoding
    } {
      val values = rows.iterator.filterNot(_.isNullAt(0)).map(_.get(0, child.dataType))
      skipping.publish(exprId, column.name, encoding.points(values).compressed(limit))
    }

  override def withNewPlan(plan: BaseSubqueryExec): SkippingKeys = copy(plan = plan)

  override def toString: String = s"$child IN ${plan.name}"

  override lazy val canonicalized: Expression = copy(
    child = child.canonicalized,
    plan = plan.canonicalized.asInstanceOf[BaseSubqueryExec],
    exprId = ExprId(0),
    skipping = null
  )

  override protected def withNewChildInternal(newChild: Expression): SkippingKeys = copy(child = newChild)
}

/**
 * The node that shows a scan's skipping, its reasons in EXPLAIN and its metrics in the SQL UI. It runs nothing: it is a
 * subquery because a scan, as a leaf, can show only a subquery's plan below itself.
 *
 * @param reasons
 *   the columns by which the scan skips files or does not, and why, in words for users
 */
case class SkippedFilesExec(@transient skipping: ScanSkipping, reasons: Seq[String])
    extends BaseSubqueryExec
    with LeafExecNode {

  import SkippedFilesExec._

  override def name: String = "skipping"

  // There is no child; Spark uses it for EXPLAIN FORMATTED only, which prints nothing for the subquery itself.
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

  /** Add to the metrics, since equal scans may share this node. The thread that runs the query calls this. */
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

  // Equality is that of the scans' identities, which are canonical. The query's own scan has reasons that the copy for
  // its keys lacks, and Spark has to find the broadcast all the same.
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

/**
 * Waits for the keys of a join with a timeout. Keys only save work: if they do not come, above all because every thread
 * of one of Spark's pools waits for a task that needs a thread there, the scan reads all files instead of hanging.
 * Spark itself waits for a subquery forever. Thread-safe.
 */
private[skipping] object SubqueryTimeout extends Logging {

  private val lost = new LongAdder

  /** The number of timeouts in this process. */
  def timesLost: Long = lost.sum

  /** Threads that only wait, since Spark's own wait has no timeout. */
  private val waiting = Executors.newCachedThreadPool { task =>
    val thread = new Thread(task, "penstock-skipping-keys")
    thread.setDaemon(true)
    thread
  }

  /** The subquery's rows; None on a timeout. Throws the subquery's exception. */
  def rows(subquery: BaseSubqueryExec, seconds: Long): Option[Array[InternalRow]] = {
    val coming = waiting.submit((() => subquery.executeCollect()): Callable[Array[InternalRow]])
    try Some(coming.get(seconds, TimeUnit.SECONDS))
    catch {
      case failed: ExecutionException => throw failed.getCause
      case _: TimeoutException =>
        lost.increment()
        logWarning(s"The keys of ${subquery.name} did not come within $seconds s: a scan goes on without them")
        None
    } finally coming.cancel(true): Unit
  }
}
