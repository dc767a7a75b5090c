package org.apache.iceberg.spark.source

import java.nio.ByteBuffer
import java.util
import java.util.function.Supplier
import java.util.{IdentityHashMap, Optional, OptionalLong}

import scala.jdk.CollectionConverters._
import scala.util.Try
import scala.util.control.NonFatal

import org.apache.iceberg.expressions.Expression.Operation
import org.apache.iceberg.expressions.{Binder, Expression => IcebergExpression}
import org.apache.iceberg.metrics.ScanReport
import org.apache.iceberg.spark.{Spark3Util, SparkReadConf, SparkSchemaUtil}
import org.apache.iceberg.types.Type.TypeID
import org.apache.iceberg.types.{Conversions, Type}
import org.apache.iceberg.{BaseTable, BatchScan, DataFile, MetadataColumns, ScanTask, Schema, Snapshot, Table}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{Expression => Condition, SubqueryExpression}
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.expressions.{Expressions, Literal, NamedReference}
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomSumMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.read.colstats.{ColumnStatistics, Histogram}
import org.apache.spark.sql.connector.read.{Scan, ScanBuilder, Statistics}
import org.apache.spark.sql.execution.datasources.SparkExpressionConverter
import org.apache.spark.sql.types.{DateType, Decimal, DecimalType, IntegerType, TimestampNTZType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

import io.penstock.skipping.index.{ColumnEntry, FileEntry, IndexedScan, SkippedPaths, TableIndex}
import io.penstock.skipping.model._

/**
 * Iceberg's scan of one snapshot, which drops data files by the keys of joins on every column whose bounds are in the
 * manifests, where Iceberg's own drops them by partitions alone; and which reports the bounds and the counts of nulls
 * to Spark, whose estimates of joins need them.
 *
 * A file without bounds of a column is read. Deletes only take rows away from a data file, and bounds belong to a
 * column's ID, so that neither they nor changes of the schema make a skipped file needed. After any failure the scan
 * reads all files.
 *
 * The class lies in Iceberg's package because what it extends is private to that.
 *
 * @param columns
 *   the columns that the query compares, by their names in the projection
 * @param base
 *   for the scan of a physical plan: the logical plan's, with the files before they are filtered by keys
 * @param reasons
 *   why files are skipped by keys or not, for the description
 */
final class IndexedQueryScan private (
    origin: IndexedQueryScan.Origin,
    private val columns: Seq[String],
    private val base: Option[IndexedQueryScan],
    reasons: Seq[String],
    override val verification: Option[SkippedPaths]
) extends SparkBatchQueryScan(
      origin.spark,
      origin.table,
      origin.schema,
      origin.snapshot,
      origin.branch,
      origin.scan,
      origin.readConf,
      origin.projection,
      origin.filters,
      origin.report
    )
    with IndexedScan
    with Logging {

  import IndexedQueryScan._

  base.foreach(logical => resetTasks(logical.tasks()))

  @volatile private var skipped = Skipped(0, 0)

  override lazy val index: TableIndex = base.fold(read())(_.index)

  override lazy val sizeInBytes: Long = base.fold(files.map(_.fileSizeInBytes).sum)(_.sizeInBytes)

  override def planned(reasons: Seq[String], verification: Option[SkippedPaths]): IndexedScan =
    new IndexedQueryScan(origin, columns, Some(this), reasons, verification)

  private val settings = new SkippingSettings(origin.spark.sessionState.conf)

  /** The numbers in the index of the tasks that were there before any filter by keys. */
  private lazy val numbers: IdentityHashMap[ScanTask, Int] = {
    val found = new IdentityHashMap[ScanTask, Int]
    base.fold(tasks())(_.tasks()).asScala.zipWithIndex.foreach { case (task, number) => found.put(task, number) }
    found
  }

  override def filter(predicates: Array[Predicate]): Unit = {
    val numbered = numbers
    // This also makes Iceberg note the specs of all files, which must not change.
    val partitions = filterAttributes().map(_.fieldNames.toSeq).toSet
    super.filter(predicates.filter(IndexedQueryScan.column(_).exists(partitions)))
    if (settings.dynamic) skip(predicates, numbered)
  }

  private def skip(predicates: Array[Predicate], numbered: IdentityHashMap[ScanTask, Int]): Unit =
    try {
      val started = System.nanoTime()
      val matching = index.select(FileFilter.and(predicates.toSeq.map(keys)))
      val (kept, left) = tasks().asScala.toSeq.partition(task => matching.get(numbered.get(task)))
      val all = tasks().asScala.map(sizeOf).sum
      skipped = Skipped(left.size, left.map(sizeOf).sum)
      SkippingCounters.scanned(kept.size + left.size, left.size, all, skipped.bytes, System.nanoTime() - started)
      verification match {
        case Some(paths) => paths.set(left.map(_.asFileScanTask.file.location).toSet)
        case None => if (left.nonEmpty) resetTasks(kept.asJava)
      }
    } catch {
      case NonFatal(e) => logWarning(s"The bounds of $table could not be used: this scan reads all files", e)
    }

  /** The files that may hold one of the values that Spark hands over. */
  private def keys(predicate: Predicate): FileFilter = {
    val literals = predicate.children.drop(1).collect { case literal: Literal[_] => literal }
    val known = for {
      Seq(name) <- IndexedQueryScan.column(predicate)
      column <- named(name)
      encoding <- literals.headOption.flatMap(literal => ValueEncoding.of(literal.dataType, column.dataType))
    } yield FileFilter.among(
      column.name,
      encoding.points(literals.iterator.map(_.value).filter(_ != null)).compressed(settings.maxKeys)
    )
    known.getOrElse(
      if (predicate.name == In && predicate.children.length == 1) FileFilter.Nothing else FileFilter.Anything
    )
  }

  /** A reference to a column may spell it differently from the scan. */
  private def named(name: String): Option[IndexedColumn] = {
    val same =
      index.columns.filter(column => if (caseSensitive) column.name == name else column.name.equalsIgnoreCase(name))
    Option.when(same.size == 1)(same.head)
  }

  private def files: Seq[DataFile] = tasks().asScala.toSeq.map(_.asFileScanTask.file)

  private def sizeOf(task: ScanTask): Long = task.asFileScanTask.file.fileSizeInBytes

  private lazy val fields: Seq[Field] = columns.flatMap(Field.of(projection(), _))

  private def read(): TableIndex = {
    val present = files
    def index(fields: Seq[Field]) = TableIndex.of(
      table().location,
      fields.map(_.column),
      present.map { file =>
        val known = fields.map(field => field.column.name -> field.statistics(file))
        FileEntry("", file.location, file.fileSizeInBytes, 0, file.recordCount, known.toMap)
      }
    )
    try index(fields)
    catch {
      case NonFatal(e) =>
        logWarning(s"The bounds of $table could not be read: its scans read all files", e)
        index(Nil)
    }
  }

  // What Spark and its users see.

  override def estimateStatistics(): Statistics = base.fold(estimate)(_.estimateStatistics())

  private lazy val estimate: Statistics = {
    val known = super.estimateStatistics()
    if (!origin.spark.sessionState.conf.cboEnabled) known
    else {
      val present = files
      // Spark's estimator fails with the query where it knows statistics of a time without a zone (FilterEstimation).
      val (withoutZone, estimated) = fields.partition(_.column.dataType == TimestampNTZType)
      val counted = estimated.map { field =>
        val column = reference(field)
        column -> field.summary(present, Option(known.columnStats.get(column)))
      }
      new Stats(
        known.sizeInBytes.orElse(Long.MaxValue),
        known.numRows.orElse(Long.MaxValue),
        ((known.columnStats.asScala ++ counted).toMap -- withoutZone.map(reference)).asJava
      )
    }
  }

  private def reference(field: Field): NamedReference = Expressions.column(quoteIfNeeded(field.column.name))

  override def supportedCustomMetrics(): Array[CustomMetric] =
    super.supportedCustomMetrics() ++ Array(new FilesSkippedByKeys, new BytesSkippedByKeys)

  override def reportDriverMetrics(): Array[CustomTaskMetric] =
    super.reportDriverMetrics() ++
      Array(Reported(FilesSkippedByKeys.Name, skipped.files), Reported(BytesSkippedByKeys.Name, skipped.bytes))

  override def description(): String =
    if (reasons.isEmpty) super.description() else s"${super.description()} SkippedFiles [${reasons.mkString("; ")}]"

  // Spark compares the filters of a physical scan itself. What they left must not make a scan that has run another one.
  override protected def runtimeFiltersDesc(): String = ""

  // Scans with the same filters are equal, in whatever order these came.
  override protected def filtersDesc(): String = Spark3Util.describe(filters().asScala.sortBy(_.toString).asJava)

  // Scans of physical plans differ, so that one takes the place of the logical one although it reads the same.
  override def equals(other: Any): Boolean = other match {
    case that: IndexedQueryScan => (this eq that) || (base.isEmpty && that.base.isEmpty && super.equals(that))
    case _ => false
  }

  override def hashCode(): Int = super.hashCode()
}

object IndexedQueryScan {

  /**
   * The scan with the statistics of these columns of its projection. None for a scan of another kind: of a metadata
   * table, of an empty one, or one that is more than Iceberg's plain scan of a snapshot.
   */
  def of(scan: AnyRef, columns: Seq[String]): Option[IndexedQueryScan] =
    for {
      (query, batch) <- plain(scan)
      if !query.isInstanceOf[IndexedQueryScan]
      known = columns.filter(Field.of(query.projection(), _).isDefined)
      if known.nonEmpty
    } yield new IndexedQueryScan(Origin.of(query, batch, known), known, None, Nil, None)

  /**
   * Which rows of a table a logical plan's scan reads, whatever their columns.
   *
   * @param isIndexed
   *   whether the scan is an [[IndexedQueryScan]], which equals no other
   */
  final case class Rows(snapshot: Option[Long], branch: Option[String], filters: Seq[String], isIndexed: Boolean)

  /** None for a scan of another kind, and for one of a physical plan. */
  def rows(scan: Scan): Option[Rows] = plain(scan).map { case (query, _) =>
    Rows(
      Option(query.snapshotId).map(_.longValue),
      Option(Origin.field[String](classOf[SparkBatchQueryScan], query, "branch")),
      query.filters.asScala.toSeq.map(_.toString).sorted,
      query.isInstanceOf[IndexedQueryScan]
    )
  }

  /** The scan of the same rows with these columns of the table. None where it cannot be made. */
  def reading(scan: Scan, columns: Seq[String]): Option[Scan] =
    for {
      (query, batch) <- plain(scan)
      fields = columns.map(query.schema().findField)
      if fields.forall(_ != null)
    } yield {
      val projection = new Schema(fields.asJava)
      changed(query, batch.project(projection))(_.copy(projection = projection))
    }

  /**
   * The scan without the files, and row groups, none of whose rows meets all these conditions on its columns. They may
   * be more than Iceberg can judge, which then stay the query's business alone. None where it has nothing to filter by
   * but what it has already.
   */
  def filtered(scan: Scan, conditions: Seq[Condition]): Option[Scan] =
    for {
      (query, batch) <- plain(scan)
      known = query.filters.asScala.map(_.toString).toSet
      late = conditions.flatMap(judged(query, _)).distinctBy(_.toString).filterNot(one => known(one.toString))
      if late.nonEmpty
    } yield changed(query, late.foldLeft(batch)(_.filter(_)))(
      _.copy(filters = (query.filters.asScala ++ late).asJava)
    )

  /** A condition as Spark and Iceberg's builder of scans translate it; None where they do not, or not rightly. */
  private def judged(query: SparkBatchQueryScan, condition: Condition): Option[IcebergExpression] = {
    val schema = query.schema
    // Iceberg's bounds leave out NaN, which is Spark's greatest number, and tell 0.0 from -0.0.
    def floating(id: Int) = Set(TypeID.FLOAT, TypeID.DOUBLE)(schema.findType(id).typeId)
    for {
      expression <- Option.when(condition.deterministic && !SubqueryExpression.hasSubquery(condition))(condition)
      // Both throw for what they do not translate.
      filter <- Try(SparkExpressionConverter.convertToIcebergExpression(expression)).toOption
      columns <- Try(Binder.boundReferences(schema.asStruct, filter, query.caseSensitive)).toOption
      if ForNulls(filter.op) || !columns.asScala.exists(id => floating(id))
    } yield filter
  }

  private val ForNulls = Set(Operation.IS_NULL, Operation.NOT_NULL)

  private def changed(query: SparkBatchQueryScan, batch: BatchScan)(change: Origin => Origin): Scan = {
    val indexed = query match {
      case one: IndexedQueryScan => one.columns
      case _ => Nil
    }
    val origin = change(Origin.of(query, batch, indexed))
    if (indexed.isEmpty) origin.plain else new IndexedQueryScan(origin, indexed, None, Nil, None)
  }

  private def plain(scan: AnyRef): Option[(SparkBatchQueryScan, BatchScan)] = scan match {
    case query: SparkBatchQueryScan =>
      val isLogical = query match {
        case indexed: IndexedQueryScan => indexed.base.isEmpty
        case other => other.getClass eq classOf[SparkBatchQueryScan]
      }
      query.scan() match {
        case batch: BatchScan if isLogical && query.table().isInstanceOf[BaseTable] => Some(query -> batch)
        case _ => None
      }
    case _ => None
  }

  private val In = "IN"

  private def column(predicate: Predicate): Option[Seq[String]] =
    Some(predicate).filter(_.name == In).flatMap(_.children.headOption).collect { case reference: NamedReference =>
      reference.fieldNames.toSeq
    }

  private final case class Skipped(files: Long, bytes: Long)

  private final case class Reported(name: String, value: Long) extends CustomTaskMetric

  /** The arguments of Iceberg's scan. */
  private[source] final case class Origin(
      spark: SparkSession,
      table: Table,
      schema: Schema,
      snapshot: Snapshot,
      branch: String,
      scan: BatchScan,
      readConf: SparkReadConf,
      projection: Schema,
      filters: util.List[IcebergExpression],
      report: Supplier[ScanReport]
  ) {

    def plain: SparkBatchQueryScan =
      new SparkBatchQueryScan(
        spark,
        table,
        schema,
        snapshot,
        branch,
        scan,
        readConf,
        projection,
        filters,
        report
      )
  }

  private object Origin {

    def of(plain: SparkBatchQueryScan, scan: BatchScan, columns: Seq[String]): Origin = Origin(
      field(classOf[SparkScan], plain, "spark"),
      plain.table(),
      plain.schema(),
      field(classOf[SparkBatchQueryScan], plain, "snapshot"),
      field(classOf[SparkBatchQueryScan], plain, "branch"),
      scan.includeColumnStats((columns ++ variants(plain.projection())).distinct.asJava),
      field(classOf[SparkScan], plain, "readConf"),
      plain.projection(),
      plain.filters(),
      field(classOf[SparkScan], plain, "scanReportSupplier")
    )

    /** Iceberg asks for the statistics of these itself. */
    private def variants(projection: Schema): Seq[String] =
      projection.columns.asScala.toSeq.filter(_.`type`.isVariantType).map(_.name)

    def field[A](declaring: Class[_], scan: SparkBatchQueryScan, name: String): A = {
      val field = declaring.getDeclaredField(name)
      field.setAccessible(true)
      field.get(scan).asInstanceOf[A]
    }
  }

  /** A column of the projection whose bounds can be compared as Spark compares its values. */
  private final case class Field(id: Int, icebergType: Type, column: IndexedColumn) {

    def statistics(file: DataFile): ColumnEntry =
      ColumnEntry(nulls(file), bound(file.lowerBounds), bound(file.upperBounds))

    /** The column in all these files, with the number of distinct values where Iceberg knows it. */
    def summary(files: Seq[DataFile], known: Option[ColumnStatistics]): ColumnStatistics = {
      val entries = files.map(statistics)
      val nulls = total(entries.map(_.nulls))
      // A file of nulls only has no bounds.
      val bounded =
        entries.zip(files).filterNot { case (entry, file) => entry.nulls.contains(file.recordCount) }.map(_._1)
      Summary(
        known.fold(OptionalLong.empty)(_.distinctCount),
        internal(all(bounded.map(_.minimum)).flatMap(_.minOption)),
        internal(all(bounded.map(_.maximum)).flatMap(_.maxOption)),
        nulls.fold(OptionalLong.empty)(OptionalLong.of(_))
      )
    }

    private def nulls(file: DataFile): Option[Long] =
      Option(file.nullValueCounts).flatMap(counts => Option(counts.get(id))).map(_.longValue)

    private def bound(bounds: util.Map[Integer, ByteBuffer]): Option[Value] =
      Option(bounds).flatMap(known => Option(known.get(id))).flatMap { bound =>
        column.domain match {
          case Domain.Bytes =>
            val bytes = new Array[Byte](bound.remaining)
            bound.duplicate.get(bytes)
            Some(Value.Bytes(bytes))
          case Domain.Integral =>
            Conversions.fromByteBuffer[Any](icebergType, bound) match {
              case number: Int => Some(Value.Integral(number.toLong))
              case number: Long => Some(Value.Integral(number))
              case decimal: java.math.BigDecimal => Some(Value.Integral(decimal.unscaledValue.longValueExact))
              case _ => None
            }
        }
      }

    /** Spark's optimizer uses the bounds of numbers, dates and times, as Catalyst holds them. */
    private def internal(value: Option[Value]): Optional[AnyRef] = value match {
      case Some(Value.Integral(number)) =>
        Optional.of(column.dataType match {
          case decimal: DecimalType => Decimal(number, decimal.precision, decimal.scale)
          case IntegerType | DateType => Int.box(number.toInt)
          case _ => Long.box(number)
        })
      case _ => Optional.empty()
    }

    private def all[A](values: Seq[Option[A]]): Option[Seq[A]] = Option.when(values.forall(_.isDefined))(values.flatten)

    private def total(counts: Seq[Option[Long]]): Option[Long] = all(counts).map(_.sum)
  }

  private object Field {

    private val Comparable =
      Set(TypeID.INTEGER, TypeID.LONG, TypeID.DATE, TypeID.TIMESTAMP, TypeID.DECIMAL, TypeID.STRING, TypeID.BINARY)

    def of(projection: Schema, name: String): Option[Field] =
      for {
        found <- Option(projection.asStruct.field(name))
        // No file says anything of its metadata columns.
        if Comparable(found.`type`.typeId) && !MetadataColumns.isMetadataColumn(found.fieldId)
        dataType = SparkSchemaUtil.convert(found.`type`)
        _ <- Domain.of(dataType)
      } yield Field(found.fieldId, found.`type`, IndexedColumn(name, dataType))
  }

  private final case class Summary(
      override val distinctCount: OptionalLong,
      override val min: Optional[AnyRef],
      override val max: Optional[AnyRef],
      override val nullCount: OptionalLong
  ) extends ColumnStatistics {
    override def avgLen: OptionalLong = OptionalLong.empty
    override def maxLen: OptionalLong = OptionalLong.empty
    override def histogram: Optional[Histogram] = Optional.empty
  }
}

/**
 * Iceberg's table whose scans have statistics from the start, so that the order of joins follows them. Only for the
 * present snapshot and schema of a table.
 */
final class IndexedSparkTable private (plain: SparkTable, columns: Seq[String]) extends SparkTable(plain.table()) {

  // Another statement may refresh the table before this one's scan is built.
  private val (presentSchema, presentSnapshot) = (table().schema, table().currentSnapshot)

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    new SparkScanBuilder(SparkSession.active, table(), presentSchema, presentSnapshot, null, options) {
      override def build(): Scan = {
        val scan = super.build()
        Try(IndexedQueryScan.of(scan, columns)).toOption.flatten.getOrElse(scan)
      }
    }
}

object IndexedSparkTable {

  /** None for a table of another kind, of a branch, or of a former snapshot or schema. */
  def of(table: AnyRef, columns: Seq[String]): Option[IndexedSparkTable] = table match {
    case plain: SparkTable if plain.getClass eq classOf[SparkTable] =>
      val indexed = new IndexedSparkTable(plain, columns)
      // Equal tables have one schema, snapshot and branch. A tag of the newest snapshot keeps its own, former schema.
      Option.when(plain == new SparkTable(plain.table()))(indexed)
    case _ => None
  }
}

/**
 * The metric of the files that a scan did not read because no key of a join can be in them. Spark makes one by name.
 */
final class FilesSkippedByKeys extends CustomSumMetric {
  override def name: String = FilesSkippedByKeys.Name
  override def description: String = "data files skipped by keys of joins"
}

object FilesSkippedByKeys {
  val Name = "filesSkippedByKeys"
}

/** The metric of these files' bytes. */
final class BytesSkippedByKeys extends CustomSumMetric {
  override def name: String = BytesSkippedByKeys.Name
  override def description: String = "bytes of data files skipped by keys of joins"
}

object BytesSkippedByKeys {
  val Name = "bytesSkippedByKeys"
}
