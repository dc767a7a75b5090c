package io.penstock.skipping.plan

import scala.util.control.NonFatal

import org.apache.iceberg.spark.source.{IndexedQueryScan, IndexedSparkTable}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, TypedImperativeAggregate}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, Command, Filter, Join, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.{DYNAMIC_PRUNING_SUBQUERY, FILTER, SCALAR_SUBQUERY}
import org.apache.spark.sql.connector.read.Scan
import org.apache.spark.sql.execution.datasources.v2.{
  DataSourceV2Relation,
  DataSourceV2ScanRelation,
  V2ScanPartitioningAndOrdering
}

import io.penstock.skipping.model.SkippingSettings

/** Changes a rule makes to Iceberg's scans. They save work only: without one the query runs as Iceberg planned it. */
private object IcebergChange extends Logging {

  /** None also where Iceberg is another one than this is made for, and then a warning with what is lost. */
  def possibly[A](lost: => String)(change: => Option[A]): Option[A] =
    try change
    catch {
      case e @ (NonFatal(_) | _: LinkageError) =>
        logWarning(lost, e)
        None
    }

  /** The relation with another scan of its table. What Spark derived from the former one, it derives from this. */
  def withScan(relation: DataSourceV2ScanRelation, scan: Scan, output: Seq[AttributeReference]): LogicalPlan = {
    val changed = relation.copy(scan = scan, output = output, keyGroupedPartitioning = None, ordering = None)
    val derived = relation.keyGroupedPartitioning.isDefined || relation.ordering.isDefined
    if (derived) V2ScanPartitioningAndOrdering(changed) else changed
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

  private def possibly[A](indexed: => Option[A]): Option[A] =
    IcebergChange.possibly("Data files of an Iceberg table cannot be skipped by the keys of joins")(indexed)

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

/**
 * An optimizer rule that gives scans of Iceberg tables the filters that reached them after Spark had planned them.
 * Iceberg then leaves out files by its manifests, and row groups by their bounds.
 *
 * Spark plans the scans of a correlated subquery before the subquery becomes a join, from which it infers filters.
 * Without this rule such a filter reads every file; and two parts of a query that ask for the same rows of a table are
 * unequal, one with the filter in its scan and one above it, so that Spark reads the table for each.
 */
object LateFilters extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (new SkippingSettings(conf).enabled) filtered(plan) else plan

  private def filtered(plan: LogicalPlan): LogicalPlan =
    plan
      .transformWithPruning(_.containsPattern(FILTER)) {
        case filter @ Filter(condition, scan: DataSourceV2ScanRelation) =>
          IcebergChange
            .possibly("Filters that Spark found late do not reach an Iceberg table")(changed(scan, condition))
            .fold(filter)(scan => filter.copy(child = scan))
      }
      // A side that Spark prunes partitions by has to stay equal to its copy in the plan.
      .transformAllExpressionsWithPruning(_.containsPattern(DYNAMIC_PRUNING_SUBQUERY)) {
        case pruning: DynamicPruningSubquery => pruning.withNewPlan(filtered(pruning.plan))
      }

  private def changed(relation: DataSourceV2ScanRelation, condition: Expression): Option[LogicalPlan] = {
    val columns = AttributeMap(relation.output.map(column => column -> column))
    val own = conjuncts(condition)
      .filter(_.references.subsetOf(relation.outputSet))
      .map(_.transform {
        // As Spark spells them when it plans a scan: a query may spell them otherwise.
        case column: AttributeReference => columns.getOrElse(column, column)
      })
    IndexedQueryScan.filtered(relation.scan, own).map(IcebergChange.withScan(relation, _, relation.output))
  }

  private def conjuncts(condition: Expression): Seq[Expression] = condition match {
    case And(left, right) => conjuncts(left) ++ conjuncts(right)
    case one => Seq(one)
  }
}

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
      IcebergChange.possibly("Each scalar subquery reads its Iceberg table itself")(merged(plan)).getOrElse(plan)

  private def merged(plan: LogicalPlan): Option[LogicalPlan] = {
    val columns = columnsRead(plan)
    Option.when(columns.nonEmpty)(plan.transformAllExpressions { case subquery: ScalarSubquery =>
      Question.of(subquery).flatMap(columns.get).fold[Expression](subquery) { names =>
        subquery.withNewPlan(subquery.plan.transform { case scan: DataSourceV2ScanRelation => widened(scan, names) })
      }
    })
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
      .fold[LogicalPlan](scan)(IcebergChange.withScan(scan, _, output))
  }
}
