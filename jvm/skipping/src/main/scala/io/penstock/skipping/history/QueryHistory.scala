package io.penstock.skipping.history

import java.io.FileNotFoundException

import scala.collection.concurrent.TrieMap
import scala.util.control.NonFatal
import scala.util.{Try, Using}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{SparkListener, SparkListenerApplicationEnd}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.{BuildLeft, BuildRight}
import org.apache.spark.sql.catalyst.plans.{Inner, JoinType, LeftSemi}
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanHelper, QueryStageExec}
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.exchange.{BroadcastExchangeExec, ReusedExchangeExec}
import org.apache.spark.sql.execution.joins.{BroadcastHashJoinExec, ShuffledJoin}
import org.apache.spark.sql.execution.penstock.BroadcastKeys
import org.apache.spark.sql.util.QueryExecutionListener
import org.slf4j.LoggerFactory

import io.penstock.skipping.build.Asked
import io.penstock.skipping.index.TablePath
import io.penstock.skipping.model.{
  AtomicFile,
  Domain,
  FileFilter,
  FilterTranslator,
  IndexedColumn,
  ParallelMap,
  RangeSet,
  SkippingSettings,
  ValueEncoding
}
import io.penstock.skipping.plan.SkippingFileIndex

/**
 * `spark.sql.queryExecutionListeners=io.penstock.skipping.history.QueryHistory`: records the conditions of each
 * successful query on its tables, in the directory of `spark.penstock.skipping.history`.
 *
 * It runs on the driver's event queue, so that no query waits for it, and its failures fail no query.
 */
class QueryHistory extends QueryExecutionListener {

  import QueryHistory._

  override def onSuccess(function: String, query: QueryExecution, durationNs: Long): Unit =
    try {
      val session = query.sparkSession
      for (directory <- new SkippingSettings(session.sessionState.conf).history) {
        val notes = new ScanNotes(session.sessionState.conf.caseSensitiveAnalysis).of(query.executedPlan)
        if (notes.nonEmpty) {
          val book = bookOf(session.sparkContext, directory)
          book.add(notes)
          // Events of a stopping application may arrive after its end.
          if (session.sparkContext.isStopped) book.flush()
        }
      }
    } catch { case NonFatal(e) => warn(e) }

  override def onFailure(function: String, query: QueryExecution, failure: Exception): Unit = ()
}

private object QueryHistory {
  private val log = LoggerFactory.getLogger(classOf[QueryHistory])

  /** The notes by application and directory: an application's sessions share them. */
  private val books = TrieMap.empty[(String, String), NoteBook]

  @volatile private var warned = false

  private def bookOf(context: SparkContext, directory: String): NoteBook = {
    val key = (context.applicationId, directory)
    books.getOrElse(
      key, {
        val history = new NoteStore(directory, context.hadoopConfiguration)
        val book = new NoteBook(history.write(context.applicationId, _))
        books.putIfAbsent(key, book).getOrElse {
          // A stopping context accepts no listeners, though events of queries may still arrive.
          if (!context.isStopped) context.addSparkListener(new AtTheEnd(key, book))
          history.prune()
          book
        }
      }
    )
  }

  private class AtTheEnd(key: (String, String), book: NoteBook) extends SparkListener {
    override def onApplicationEnd(end: SparkListenerApplicationEnd): Unit = {
      books.remove(key)
      try book.flush()
      catch { case NonFatal(e) => warn(e) }
    }
  }

  private def warn(failure: Throwable): Unit = if (!warned) {
    warned = true
    log.warn("The conditions of queries are not recorded for advice on layouts; queries are not affected", failure)
  }
}

/**
 * The notes of the last applications, a file each in one directory of the lake. Thread-safe; several processes may use
 * one directory. Methods throw an `IOException` where the store fails.
 */
class NoteStore(directory: String, conf: Configuration) {

  import NoteStore._

  private val root = new Path(directory)
  private val fs = root.getFileSystem(conf)

  /** Replace the application's notes: a reader sees the former ones or these, whole. */
  def write(application: String, content: Array[Byte]): Unit =
    AtomicFile.replace(new Path(root, application + Suffix), content, conf)

  /** Delete the oldest files beyond those of the last applications. */
  def prune(): Unit = newest().drop(Applications).foreach(file => fs.delete(file.getPath, false))

  /**
   * The notes of the last applications on a table, those that read most. An unreadable file is left out with a warning.
   */
  def of(table: String): Seq[ScanNote] = read()
    .filter(_.table == table)
    .groupMapReduce(NoteFile.identity)(identity)(_ and _)
    .values
    .toSeq
    .sortBy(note => (-note.bytes, NoteFile.identity(note)))
    .take(NoteBook.MostQuestions)

  private def read(): Seq[ScanNote] =
    ParallelMap.map(newest().take(Applications).iterator, Requests)(notes).flatten.toSeq

  private def notes(file: FileStatus): Seq[ScanNote] =
    try NoteFile.read(Using.resource(fs.open(file.getPath))(_.readAllBytes()))
    catch {
      case _: FileNotFoundException => Nil
      case NonFatal(e) =>
        log.warn(s"The notes of queries in ${file.getPath} are left out: ${e.getMessage}")
        Nil
    }

  private def newest(): Seq[FileStatus] = {
    val files =
      try fs.listStatus(root).toSeq
      catch { case _: FileNotFoundException => Nil }
    files.filter(_.getPath.getName.endsWith(Suffix)).sortBy(-_.getModificationTime)
  }
}

object NoteStore {
  private val log = LoggerFactory.getLogger(classOf[NoteStore])

  private val Suffix = ".json"

  /** Older notes say little about future queries. */
  private val Applications = 500

  /** Parallel reads. */
  private val Requests = 16
}

/** The conditions of past queries on a table, for the choice of its index's columns. Never fails. */
object Questions {

  private val log = LoggerFactory.getLogger(getClass)

  /**
   * The conditions; none without a history, or with an unreadable one: then the files alone decide which columns are
   * worth it.
   */
  def of(spark: SparkSession, table: Path): Seq[Asked] =
    try
      for {
        directory <- new SkippingSettings(spark.sessionState.conf).history.toSeq
        note <- new NoteStore(directory, spark.sessionState.newHadoopConf()).of(table.toString)
        Condition(column, _, Some(keys)) <- note.conditions
      } yield Asked(column, note.scans, keys)
    catch {
      case NonFatal(e) =>
        log.warn(s"The history of queries on $table is unreadable, the files alone decide on its columns: $e")
        Nil
    }
}

/** Extracts the conditions of an executed query on its Parquet tables from its plan. */
private[history] class ScanNotes(caseSensitive: Boolean) extends AdaptiveSparkPlanHelper {

  import ScanNotes._

  def of(plan: SparkPlan): Seq[ScanNote] = {
    val joined = new JoinKeys(MostIntervals).of(plan)
    for {
      scan <- collectWithSubqueries(plan) {
        case scan: FileSourceScanExec if scan.relation.fileFormat.isInstanceOf[ParquetFileFormat] => scan
      }
      table <- root(scan)
      byJoin = joined.collect {
        case (attribute, keys) if scan.outputSet.contains(attribute) => Condition(attribute.name, byJoin = true, keys)
      }
      asked = distinct(byLiterals(scan) ++ seen(byJoin ++ bySkipping(scan)))
      // No layout spares a scan without conditions a file.
      if asked.nonEmpty
    } yield ScanNote(table, asked, 1, count(scan, "numFiles"), count(scan, "filesSize"))
  }

  private def byLiterals(scan: FileSourceScanExec): Seq[Condition] = {
    val columns = for {
      field <- scan.relation.schema.fields.toSeq if Domain.of(field.dataType).isDefined
    } yield IndexedColumn(field.name, field.dataType)
    asked(new FilterTranslator(columns, caseSensitive).translate(scan.partitionFilters ++ scan.dataFilters))
  }

  /** Conditions by keys of separate runs and of joins further away, which no broadcast of the scan's own joins has. */
  private def bySkipping(scan: FileSourceScanExec): Seq[Condition] = scan.relation.location match {
    case index: SkippingFileIndex =>
      index.skipping.joinKeys.map { case (column, keys) =>
        Condition(column, byJoin = true, Some(keys.compressed(MostIntervals)))
      }
    case _ => Nil
  }

  /** Drop unobserved keys of columns that also have observed ones. */
  private def seen(byJoin: Seq[Condition]): Seq[Condition] = {
    val known = byJoin.filter(_.keys.isDefined).map(_.column).toSet
    byJoin.filter(condition => condition.keys.isDefined || !known(condition.column))
  }

  private def asked(filter: FileFilter): Seq[Condition] = filter match {
    case FileFilter.And(parts) => parts.flatMap(asked)
    case FileFilter.Among(column, keys) =>
      Seq(Condition(column, byJoin = false, Some(keys.compressed(MostIntervals))))
    case _ => Nil
  }

  /** Distinct conditions in a canonical order, which does not depend on Spark's plan. */
  private def distinct(conditions: Seq[Condition]): Seq[Condition] =
    conditions.map(condition => NoteFile.identity(condition) -> condition).distinctBy(_._1).sortBy(_._1).map(_._2)

  private def count(scan: FileSourceScanExec, metric: String): Long = scan.metrics.get(metric).fold(0L)(_.value)

  /** The table's root; None where no partition was left. */
  private def root(scan: FileSourceScanExec): Option[String] = {
    val partitions = scan.relation.partitionSchema.fieldNames.toSeq
    scan.relation.location.rootPaths.headOption.map(path => TablePath.abovePartitions(path, partitions).toString)
  }
}

private object ScanNotes {

  /** The most intervals of a condition; more would lengthen notes for little. */
  private val MostIntervals = 64
}

/**
 * Extracts the keys of an executed query's joins for the columns of its scans, whether or not files were skipped by
 * them, since advice concerns all that could have been. The driver still has the keys of broadcast sides; it never had
 * those of shuffled ones.
 */
private[history] class JoinKeys(mostIntervals: Int) extends AdaptiveSparkPlanHelper {

  import JoinKeys._

  def of(plan: SparkPlan): Seq[(Attribute, Option[RangeSet])] = collectWithSubqueries(plan) {
    case join: BroadcastHashJoinExec if drops(join.joinType) =>
      val (built, builtKeys, streamed, streamedKeys) = join.buildSide match {
        case BuildLeft => (join.left, join.leftKeys, join.right, join.rightKeys)
        case BuildRight => (join.right, join.rightKeys, join.left, join.leftKeys)
      }
      for {
        (key, place) <- streamedKeys.zipWithIndex
        column <- scanned(key, streamed)
      } yield column -> broadcast(built).flatMap(read(_, builtKeys, place, column))
    case join: ShuffledJoin if drops(join.joinType) =>
      for {
        (left, right) <- join.leftKeys.zip(join.rightKeys)
        column <- scanned(left, join.left) ++ scanned(right, join.right)
      } yield column -> None
  }.flatten

  /** Whether the join drops rows without a partner, of both sides or of the left one. */
  private def drops(kind: JoinType): Boolean = kind == Inner || kind == LeftSemi

  /** The column of a scan below with the values of this key. */
  private def scanned(key: Expression, below: SparkPlan): Option[Attribute] = key match {
    case cast: Cast if ValueEncoding.isLossless(cast.child.dataType, cast.dataType) => scanned(cast.child, below)
    case attribute: Attribute =>
      val renamed = collectFirst(below) {
        case project: ProjectExec if project.projectList.exists(isAlias(_, attribute)) =>
          project.projectList.collectFirst { case alias: Alias if isAlias(alias, attribute) => alias.child }.get
      }
      renamed.fold(collectFirst(below) {
        case scan: FileSourceScanExec if scan.outputSet.contains(attribute) =>
          scan.output.find(_.exprId == attribute.exprId).get
      })(scanned(_, below))
    case _ => None
  }

  private def isAlias(expression: NamedExpression, of: Attribute): Boolean =
    expression.isInstanceOf[Alias] && expression.exprId == of.exprId

  private def broadcast(side: SparkPlan): Option[BroadcastExchangeExec] = side match {
    case adapter: InputAdapter => broadcast(adapter.child)
    case stage: QueryStageExec => broadcast(stage.plan)
    case reused: ReusedExchangeExec => broadcast(reused.child)
    case exchange: BroadcastExchangeExec =>
      // A broadcast that never ran would run now.
      val rows = exchange.metrics.get("numOutputRows").fold(0L)(_.value)
      Option.when(rows > 0 && rows <= MostKeys)(exchange)
    case _ => None
  }

  private def read(
      exchange: BroadcastExchangeExec,
      buildKeys: Seq[Expression],
      place: Int,
      column: Attribute
  ): Option[RangeSet] =
    for {
      encoding <- ValueEncoding.of(buildKeys(place).dataType, column.dataType)
      // Keys that are no longer readable count as unobserved.
      values <- Try(BroadcastKeys.of(exchange, buildKeys, place)).toOption
    } yield encoding.points(values.filter(_ != null)).compressed(mostIntervals)
}

private object JoinKeys {

  /** The most keys of a broadcast to read; more are not worth the driver's time. */
  private val MostKeys = 200000L
}
