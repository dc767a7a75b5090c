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
 * Stands among a scan's data filters, to be called when the scan is about to run: Spark waits for the subqueries of an
 * operator's expressions first. As a filter it says nothing about rows.
 */
sealed abstract class SkippingExpression extends ExecSubqueryExpression with Predicate {
  def skipping: ScanSkipping
  override def nullable: Boolean = false
  override def eval(input: InternalRow): Any = true
  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = Literal.TrueLiteral.genCode(ctx)
}

/**
 * Brings where to tell what the scan skipped, and those of its filters that hold subqueries, with their results. One
 * for each scan.
 *
 * @param dataFilters
 *   that compare columns with subqueries' results
 * @param partitionFilters
 *   by which the scan leaves out partitions after it has listed its files
 */
case class SkippedFiles(
    dataFilters: Seq[Expression],
    partitionFilters: Seq[Expression],
    plan: BaseSubqueryExec,
    @transient skipping: ScanSkipping
) extends SkippingExpression {

  // Nothing refers to it, and a new one each time would make equal plans different.
  override def exprId: ExprId = ExprId(0)

  override def children: Seq[Expression] = dataFilters ++ partitionFilters

  // Spark goes on to the subqueries inside the filters after this: they are looked at when files are selected.
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
 * Brings the keys of a join: files that hold none of them in `child` are skipped.
 *
 * @param plan
 *   Spark's own subquery, one column; its rows are the keys
 * @param limit
 *   more keys than this are compressed to so many intervals
 * @param patience
 *   for how many seconds to wait for them; then the scan does without
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

/**
 * Waits for the keys of a join, but not for ever. They only save work: whatever keeps them from coming, above all that
 * every thread of one of Spark's pools waits for something that has yet to get a thread there, costs a scan of all
 * files and no hang. Spark itself waits for a subquery without end.
 */
private[skipping] object SubqueryTimeout extends Logging {

  private val lost = new LongAdder

  /** How often in this process keys did not come in time. */
  def timesLost: Long = lost.sum

  /** In these nothing runs: they stand and wait in Spark's place, which knows no time out. */
  private val waiting = Executors.newCachedThreadPool { task =>
    val thread = new Thread(task, "penstock-skipping-keys")
    thread.setDaemon(true)
    thread
  }

  /** The subquery's rows; None where they did not come within so many seconds. What it throws is thrown. */
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
