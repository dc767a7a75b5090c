package io.penstock.skipping.layout

import java.util.UUID

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.catalog.{
  CatalogTable,
  CatalogTablePartition,
  CatalogTableType,
  ExternalCatalogUtils
}
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.expressions.{Cast, Expression, Literal}
import org.apache.spark.sql.catalyst.{InternalRow, TableIdentifier}
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.penstock.Columns
import org.apache.spark.sql.types.{DataType, Decimal, IntegerType, StringType, StructType}
import org.apache.spark.sql.{SaveMode, SparkSession}
import org.apache.spark.unsafe.hash.Murmur3_x86_32
import org.apache.spark.unsafe.types.UTF8String

import io.penstock.skipping.build.{IndexMaintenance, IndexedTable}
import io.penstock.skipping.index.TableListing
import io.penstock.skipping.layout.Placement.SampledRow
import io.penstock.skipping.model.{SkippingSettings, Value}

/** The result of a rewrite; `table` is the one with the new layout. */
case class Rewritten(table: Seq[String], filesBefore: Int, bytesBefore: Long, files: Int, bytes: Long, rows: Long)

/**
 * Rewrites a table in another layout, registers it, collects its statistics and indexes it.
 *
 * Nothing else may write to the table meanwhile. The rewrite fails where it sees another change, such as a commit of
 * another job of Penstock's; files that a program adds in place without such commits would be lost. A failed rewrite
 * has changed nothing, with two exceptions: the last step of [[RewriteTarget.Renamed]], and [[RewriteTarget.InPlace]],
 * which counts the rows after it has replaced them.
 */
class TableRewrite(spark: SparkSession, source: SourceTable, layout: Layout) {

  import TableRewrite._

  private val conf = spark.sessionState.newHadoopConf()
  private val catalog = spark.sessionState.catalog
  private val settings = new SkippingSettings(spark.sessionState.conf)

  /**
   * Rewrite the table, into a new one if `into` names it. Throws an `IllegalArgumentException`, before it writes, where
   * the layout is impossible.
   */
  def run(into: Option[Seq[String]]): Rewritten = {
    requireColumns()
    val target = RewriteTarget.choose(
      into,
      cataloged = source.entry.isDefined,
      partitionedAlike = layout.partitionBy == source.partitionColumns,
      replacesAtOnce = source.version.isDefined
    ) match {
      case Right(target) => target
      case Left(why) => throw refused(why)
    }
    requireOwnPartitions(target)
    val (files, bytes, rows) = (source.files, source.bytes, source.rows)
    val table = target match {
      case RewriteTarget.InPlace => inPlace()
      case RewriteTarget.Beside(table) => beside(table)
      case RewriteTarget.Renamed => renamed()
    }
    val now = TableListing.list(IndexedTable.of(spark, table).root, conf)
    Rewritten(table, files, bytes, now.size, now.map(_.length).sum, rows)
  }

  private def inPlace(): Seq[String] = {
    write(source.root, source.version.map(version => CommitVersion.Expected -> version.toString).toMap)
    source.entry.foreach(table => catalog.refreshTable(table.identifier))
    spark.catalog.refreshByPath(source.root.toString)
    val written = spark.table(source.sqlName).count()
    if (written != source.rows)
      throw new IllegalStateException(s"${source.sqlName} had ${source.rows} rows, and has $written after its rewrite")
    complete(source.name)
    source.name
  }

  private def beside(name: Seq[String]): Seq[String] = {
    val identifier = spark.sessionState.sqlParser.parseTableIdentifier(quoted(name))
    if (catalog.tableExists(identifier)) throw refused(s"there is a table ${identifier.unquotedString} already")
    val location = new Path(catalog.defaultTablePath(identifier))
    make(identifier, CatalogTableType.MANAGED, location)
    complete(name)
    name
  }

  /**
   * Write a new table and, when it is complete, move the name to it. That takes two steps in the catalog; a query
   * between them does not find the table.
   */
  private def renamed(): Seq[String] = {
    val entry = source.entry.get
    val before = source.state
    val id = UUID.randomUUID.toString.take(8)
    val interim = entry.identifier.copy(table = s"${entry.identifier.table}__rewritten_$id")
    // The renaming of a managed table would move it file by file.
    val location = source.root.suffix(s"-$id")
    make(interim, CatalogTableType.EXTERNAL, location)
    try {
      complete(interim.nameParts.takeRight(2))
      if (source.state != before) throw refused("it was changed meanwhile. Run it again when nothing writes to it")
    } catch { case NonFatal(e) => discard(interim, location); throw e }
    val renaming =
      s"ALTER TABLE ${quoted(interim.nameParts)} RENAME TO ${quoted(entry.identifier.nameParts.takeRight(2))}"
    spark.sql(s"DROP TABLE ${quoted(entry.identifier.nameParts)}")
    try spark.sql(renaming)
    catch {
      case NonFatal(e) =>
        throw new IllegalStateException(s"${source.sqlName} is complete, but it has another name now: $renaming", e)
    }
    source.name
  }

  /** Write and register the table; a failure removes both. */
  private def make(identifier: TableIdentifier, kind: CatalogTableType, location: Path): Unit = {
    val fs = location.getFileSystem(conf)
    if (fs.exists(location) && fs.listStatus(location).nonEmpty) throw refused(s"there are files at $location already")
    try {
      write(location)
      catalog.createTable(described(identifier, kind, location), ignoreIfExists = false, validateLocation = false)
      if (layout.partitionBy.nonEmpty) spark.sql(s"ALTER TABLE ${quoted(identifier.nameParts)} RECOVER PARTITIONS")
      val written = spark.table(quoted(identifier.nameParts)).count()
      if (written != source.rows) throw refused(s"it had ${source.rows} rows, and $written when it was written again")
    } catch { case NonFatal(e) => discard(identifier, location); throw e }
  }

  private def discard(identifier: TableIdentifier, location: Path): Unit = {
    catalog.dropTable(identifier, ignoreIfNotExists = true, purge = false)
    location.getFileSystem(conf).delete(location, true)
  }

  /** The table's own description with the changes of its layout. */
  private def described(identifier: TableIdentifier, kind: CatalogTableType, location: Path): CatalogTable = {
    val (partitions, data) = source.entry
      .fold(source.frame.schema)(_.schema)
      .partition(field => layout.partitionBy.contains(field.name))
    val ordered = StructType(data ++ layout.partitionBy.map(name => partitions.find(_.name == name).get))
    val template = source.entry.getOrElse(CatalogTable(identifier, kind, EmptyStorage, ordered, Some("parquet")))
    template.copy(
      identifier = identifier,
      tableType = kind,
      storage = template.storage.copy(locationUri = Some(location.toUri)),
      schema = ordered,
      partitionColumnNames = layout.partitionBy,
      tracksPartitionsInCatalog = layout.partitionBy.nonEmpty && spark.sessionState.conf.manageFilesourcePartitions,
      stats = None
    )
  }

  private def write(location: Path, options: Map[String, String] = Map.empty): Unit =
    source.frame
      .repartition(placement.objects, Columns.of(objectOf))
      .sortWithinPartitions(layout.columns.map(name => col(Layout.quoted(name))): _*)
      .write
      .mode(SaveMode.Overwrite)
      .option("partitionOverwriteMode", "static")
      .options(options)
      .options(source.entry.fold(Map.empty[String, String])(_.storage.properties))
      .partitionBy(layout.partitionBy: _*)
      .parquet(location.toString)

  private lazy val placement: Placement = {
    val partitionColumns = layout.partitionBy.size
    val sample = if (layout.columns.isEmpty) Nil else source.sample(layout.columns)
    val rows = sample.map(ObjectOf.split(_, partitionColumns)).map { case (partition, values) =>
      SampledRow(partition, values)
    }
    Placement.of(layout, rows, source.bytes, settings.objectBytes)
  }

  private def objectOf: ObjectOf = {
    val attributes = source.frame.queryExecution.analyzed.output
    ObjectOf(layout.columns.map(name => attributes.find(_.name == name).get), layout.partitionBy.size, placement)
  }

  /** Collect the optimizer's statistics, for the same columns as before, and build the index. */
  private def complete(name: Seq[String]): Unit = {
    for (statistics <- source.entry.flatMap(_.stats)) {
      val columns = statistics.colStats.keys.toSeq.sorted.map(Layout.quoted)
      val of = if (columns.isEmpty) "" else columns.mkString(" FOR COLUMNS ", ", ", "")
      spark.sql(s"ANALYZE TABLE ${quoted(name)} COMPUTE STATISTICS$of")
    }
    IndexMaintenance.build(spark, IndexedTable.of(spark, name))
  }

  private def requireColumns(): Unit = {
    val repeated = layout.columns.diff(layout.columns.distinct)
    if (repeated.nonEmpty) throw refused(s"its layout names ${repeated.head} twice")
    if (layout.partitionBy.size >= source.frame.columns.length) throw refused("no column would be left in its files")
    for (field <- layout.ranges.map(level => source.column(level.column)) if !source.canBeRanged(field))
      throw refused(s"files cannot be skipped by ranges of ${field.name}, a ${field.dataType.sql}")
    for (field <- layout.partitionBy.diff(source.partitionColumns).map(source.column)) {
      if (!source.canPartition(field))
        throw refused(s"names of directories cannot hold the values of ${field.name}, a ${field.dataType.sql}")
      // Spark reads the directory of an empty string as null.
      if (
        field.dataType == StringType && source.frame.where(col(Layout.quoted(field.name)) === "").limit(1).count() > 0
      )
        throw refused(s"${field.name} is empty in some rows, which a directory cannot tell from null")
    }
  }

  private def requireOwnPartitions(target: RewriteTarget): Unit =
    for (entry <- source.entry if entry.partitionColumnNames.nonEmpty) {
      val fs = source.root.getFileSystem(conf)
      for (partition <- catalog.listPartitions(entry.identifier)) {
        // A path of text, unlike one of a URI, has no slash at its end.
        val place = new Path(new Path(partition.location).toString).makeQualified(fs.getUri, fs.getWorkingDirectory)
        val own = ExternalCatalogUtils.generatePartitionPath(
          directoryValues(partition, entry.partitionSchema),
          entry.partitionColumnNames,
          source.root
        )
        for (why <- RewriteTarget.misplaced(target, place, own, source.root)) throw refused(why)
      }
    }

  /** A partition's values as Spark writes them into directories' names, which the catalog may spell otherwise. */
  private def directoryValues(partition: CatalogTablePartition, columns: StructType): Map[String, String] = {
    val zone = spark.sessionState.conf.sessionLocalTimeZone
    val values = partition.toRow(columns, zone)
    columns.zipWithIndex.map { case (field, number) =>
      val text = Cast(Literal(values.get(number, field.dataType), field.dataType), StringType, Some(zone)).eval()
      field.name -> Option(text).fold[String](null)(_.toString)
    }.toMap
  }

  private def refused(why: String) = new IllegalArgumentException(s"${source.sqlName} is not rewritten: $why")

  private def quoted(name: Seq[String]): String = name.map(Layout.quoted).mkString(".")
}

object TableRewrite {

  private val EmptyStorage = org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat.empty

  /** The layout with the table's names of columns. */
  def named(layout: Layout, table: SourceTable): Layout = Layout(
    layout.partitionBy.map(table.column(_).name),
    layout.ranges.map(level => level.copy(column = table.column(level.column).name))
  )
}

/** The target of a rewrite, and the way in which it replaces the table. */
sealed trait RewriteTarget

object RewriteTarget {

  /** A new table of the catalog; the old one stays. */
  final case class Beside(table: Seq[String]) extends RewriteTarget

  /** The table's own directory: the commit protocol replaces all files at once. */
  case object InPlace extends RewriteTarget

  /** A new directory; the catalog's name then moves from the old one to it. */
  case object Renamed extends RewriteTarget

  /**
   * Choose the target, a pure function. Left: the reason why there is none, and the remedy.
   *
   * @param cataloged
   *   whether the table is in the catalog
   * @param partitionedAlike
   *   whether the partition columns stay the same, since the catalog cannot change those of a table
   * @param replacesAtOnce
   *   whether a job that replaces the files it reads leaves them in place until it has succeeded
   */
  def choose(
      into: Option[Seq[String]],
      cataloged: Boolean,
      partitionedAlike: Boolean,
      replacesAtOnce: Boolean
  ): Either[String, RewriteTarget] = into match {
    case Some(table) => Right(Beside(table))
    case None if replacesAtOnce && (partitionedAlike || !cataloged) => Right(InPlace)
    case None if cataloged => Right(Renamed)
    case None =>
      Left(
        "it is in no catalog, and on this file system a table cannot be replaced by what is read from it: " +
          "write it INTO a table of the catalog"
      )
  }

  /**
   * The reason why a partition's location keeps the target from being written, if it does. A rewrite in place leaves
   * locations in the catalog, so the rows of other places would be lost. A new directory leaves a partition's files
   * outside the old one where they are.
   *
   * @param own
   *   where Spark writes the partition's rows
   */
  def misplaced(target: RewriteTarget, place: Path, own: Path, root: Path): Option[String] = target match {
    case InPlace if place != own =>
      Some(s"a partition of it is elsewhere, at $place: its rows would be written to $own")
    case Renamed if !place.toString.startsWith(s"$root/") =>
      Some(s"a partition of it is elsewhere, at $place: its files would stay there. Write it INTO another table")
    case _ => None
  }
}

/**
 * An expression for the number by whose hash Spark sends a row to the task that writes the row's object and no other.
 *
 * Only since Spark 4.1 can a query choose the task itself (`repartitionById`), and a range partitioning would read the
 * table twice, the first time for a sample.
 *
 * @param children
 *   the partition columns, then the range columns
 */
case class ObjectOf(children: Seq[Expression], partitionColumns: Int, placement: Placement, numbers: IndexedSeq[Int])
    extends Expression
    with CodegenFallback {

  override def nullable: Boolean = false

  override def dataType: DataType = IntegerType

  override def eval(row: InternalRow): Any = {
    val (partition, values) = ObjectOf.split(children.map(_.eval(row)), partitionColumns)
    numbers(placement.of(partition, values))
  }

  override protected def withNewChildrenInternal(children: IndexedSeq[Expression]): Expression =
    copy(children = children)
}

object ObjectOf {

  private val HashSeed = 42

  def apply(children: Seq[Expression], partitionColumns: Int, placement: Placement): ObjectOf =
    ObjectOf(children, partitionColumns, placement, hashedTo(placement.objects))

  /** For each task a number that Spark's hash partitioning sends there. */
  private[layout] def hashedTo(tasks: Int): IndexedSeq[Int] = {
    val numbers = Array.fill(tasks)(-1)
    var missing = tasks
    var candidate = 0
    while (missing > 0) {
      val task = Math.floorMod(Murmur3_x86_32.hashInt(candidate, HashSeed), tasks)
      if (numbers(task) < 0) {
        numbers(task) = candidate
        missing -= 1
      }
      candidate += 1
    }
    numbers.toIndexedSeq
  }

  /** Split a row into Catalyst's values of the partition columns, and those of the range columns in their domains. */
  def split(row: Seq[Any], partitionColumns: Int): (Seq[Any], Seq[Option[Value]]) = {
    val (partition, ranged) = row.splitAt(partitionColumns)
    (partition, ranged.map(Option(_).map(value)))
  }

  private def value(any: Any): Value = any match {
    case text: UTF8String => Value.Bytes(text.getBytes)
    case bytes: Array[Byte] => Value.Bytes(bytes)
    case decimal: Decimal => Value.Integral(decimal.toUnscaledLong)
    case number: Number => Value.Integral(number.longValue)
    case other => throw new IllegalArgumentException(s"ranges cannot be cut by $other")
  }
}
