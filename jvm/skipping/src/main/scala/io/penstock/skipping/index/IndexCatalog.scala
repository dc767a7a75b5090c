package io.penstock.skipping.index

import java.lang.ref.SoftReference
import java.util.{LinkedHashMap, Map => JavaMap}

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.datasources.HadoopFsRelation
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.slf4j.LoggerFactory

import io.penstock.skipping.SkippingSettings

/** The indexes that this driver holds in memory, shared by its sessions. */
object IndexCatalog {

  private val log = LoggerFactory.getLogger(getClass)

  /**
   * The index of the table that a scan reads, with those columns by which the scan may be filtered. None where there is
   * none, or none that can be used, which is warned of once. Never throws because of an index.
   *
   * The store is asked no more often than each `spark.penstock.skipping.index.max.age`, and the index is read anew only
   * when it was replaced. An old one is no danger: its entries count only for files that are as they were.
   */
  def find(spark: SparkSession, relation: HadoopFsRelation): Option[TableIndex] =
    if (!relation.fileFormat.isInstanceOf[ParquetFileFormat]) None
    else
      try {
        val conf = spark.sessionState.newHadoopConfWithOptions(relation.options)
        val ageMs = new SkippingSettings(spark.sessionState.conf).indexAgeMs
        roots(relation, conf).iterator
          .flatMap(root => slot(root).look(conf, ageMs))
          .nextOption()
          .map(index => new ScanIndex(index, usable(relation, spark, index)))
      } catch {
        case NonFatal(e) =>
          log.warn(s"No files of ${relation.location.rootPaths.headOption.mkString} are skipped: $e", e)
          None
      }

  /** The next scan of the table looks anew. */
  private[index] def forget(root: Path): Unit = slots.synchronized(slots.remove(root.toString))

  /** Nearest first. After pruning, a partitioned table's paths are its partitions' directories. */
  private def roots(relation: HadoopFsRelation, conf: Configuration): Seq[Path] =
    relation.location.rootPaths
      .map(path => path.getFileSystem(conf).makeQualified(path))
      .flatMap(TablePath.candidates)
      .distinct

  /** Those that the scan reads from the files, as what they are in the index. */
  private def usable(relation: HadoopFsRelation, spark: SparkSession, index: TableIndex): Set[String] = {
    val byId = spark.sessionState.conf.parquetFieldIdReadEnabled
    index.columns
      .filter(column =>
        relation.dataSchema.exists(field =>
          field.name == column.name && field.dataType == column.dataType &&
            !(byId && field.metadata.contains(FieldId))
        ) && !relation.partitionSchema.exists(_.name.equalsIgnoreCase(column.name))
      )
      .map(_.name)
      .toSet
  }

  /** Spark may read such columns from a field of another name. */
  private val FieldId = "parquet.field.id"

  private val MaxSlots = 1000

  /** Also of tables without an index, so that they are not looked for in each query. */
  private val slots = new LinkedHashMap[String, Slot](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JavaMap.Entry[String, Slot]): Boolean = size > MaxSlots
  }

  private def slot(root: Path): Slot =
    slots.synchronized(slots.computeIfAbsent(root.toString, _ => new Slot(root)))

  /** What is known of one root. Its lock is held while an index is loaded, so that one of several queries loads it. */
  private class Slot(root: Path) {
    private var lookedNs = Option.empty[Long]
    private var loaded = Option.empty[(String, SoftReference[TableIndex])]
    private var warned = Option.empty[String]

    def look(conf: Configuration, ageMs: Long): Option[TableIndex] = synchronized {
      val recent = lookedNs.exists(System.nanoTime - _ < ageMs * 1000000)
      // Memory may have been needed for something else.
      val held = loaded.flatMap(former => Option(former._2.get))
      if (recent && loaded.isDefined == held.isDefined) held
      else {
        val index =
          try
            new IndexStore(root, conf)
              .read()
              .map(manifest => held.filter(_ => isLoaded(manifest)).getOrElse(load(manifest, conf)))
          catch {
            case e: IndexDamage =>
              loaded = None
              warn(s"${e.getMessage}; until then no file is skipped", e)
              None
            case NonFatal(e) =>
              warn(s"The skipping index of $root could not be looked for: $e", e)
              held
          }
        if (index.isEmpty) loaded = None
        lookedNs = Some(System.nanoTime)
        index
      }
    }

    private def isLoaded(manifest: Manifest) = loaded.exists(_._1 == manifest.id)

    private def load(manifest: Manifest, conf: Configuration): TableIndex = {
      val start = System.nanoTime
      val columns = manifest.plan.map(_.column)
      val index = TableIndex.of(root.toString, columns, new IndexStore(root, conf).entries(manifest, columns))
      loaded = Some((manifest.id, new SoftReference(index)))
      warned = None
      val milliseconds = (System.nanoTime - start) / 1000000
      log.info(s"The skipping index of $root was loaded in $milliseconds ms: ${index.files} files")
      index
    }

    private def warn(message: String, cause: Throwable): Unit = if (!warned.contains(message)) {
      warned = Some(message)
      log.warn(message)
      log.debug("Cause", cause)
    }
  }
}

/** An index as one scan may use it. */
private class ScanIndex(index: TableIndex, usable: Set[String]) extends TableIndex {
  override def root: String = index.root
  override def files: Int = index.files
  override def columns: Seq[IndexedColumn] = index.columns.filter(column => usable(column.name))
  override def column(name: String): Option[ColumnSummary] = if (usable(name)) index.column(name) else None
  override def find(directory: String, name: String, length: Long, modificationMs: Long): Int =
    index.find(directory, name, length, modificationMs)
  override def select(filter: io.penstock.skipping.filter.FileFilter): java.util.BitSet = index.select(filter)
}
