package io.penstock.skipping.index

import java.lang.ref.SoftReference
import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.{LinkedBlockingQueue, ThreadPoolExecutor, TimeUnit}
import java.util.{LinkedHashMap, Map => JavaMap}

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, InMemoryFileIndex}
import org.slf4j.LoggerFactory

import io.penstock.skipping.model.{IndexedColumn, SkippingSettings}

/** The indexes in this driver's memory, shared by its sessions. Thread-safe. */
object IndexCatalog {

  private val log = LoggerFactory.getLogger(getClass)

  /**
   * The index of the table that a scan reads, with the columns by which the scan may be filtered. None where there is
   * none, where it is unusable (which logs one warning), and where the scan reads one small file only. Never throws
   * because of an index.
   *
   * The catalog checks the store at most once in `spark.penstock.skipping.index.max.age`, and reads an index again only
   * where it was replaced. An old index is no danger: its entries count only for unchanged files. So for a while after
   * that age callers get the old one, and the catalog checks the store in the background.
   */
  def find(spark: SparkSession, relation: HadoopFsRelation): Option[TableIndex] =
    try {
      // A copy of the configuration takes longer than the rest, and is rarely needed.
      lazy val conf = spark.sessionState.newHadoopConfWithOptions(relation.options)
      val ageMs = new SkippingSettings(spark.sessionState.conf).indexAgeMs
      roots(relation, conf)
        .flatMap(root => slot(root).look(conf, ageMs))
        .nextOption()
        .map(index => new ScanIndex(index, usable(relation, spark, index)))
    } catch {
      case NonFatal(e) =>
        log.warn(s"No files of ${relation.location.rootPaths.headOption.mkString} are skipped: $e", e)
        None
    }

  /**
   * Prefetch the index of this table in the background: find it, and load it if it covers one of the `columns`, by
   * which a query is going to filter. Otherwise the first query of a driver would wait for one table after the other.
   * Never throws.
   */
  def expect(spark: SparkSession, relation: HadoopFsRelation, columns: Set[String]): Unit =
    try {
      lazy val conf = spark.sessionState.newHadoopConfWithOptions(relation.options)
      val ageMs = new SkippingSettings(spark.sessionState.conf).indexAgeMs
      roots(relation, conf).nextOption().foreach(root => slot(root).expect(conf, ageMs, columns))
    } catch {
      case NonFatal(e) => log.debug(s"${relation.location.rootPaths.headOption.mkString} has no index prefetched", e)
    }

  /**
   * False for a table of one small file, as most dimension tables are: reading it takes no more requests than its
   * index.
   */
  private def isWorthLooking(relation: HadoopFsRelation): Boolean =
    relation.fileFormat.isInstanceOf[ParquetFileFormat] && (relation.location match {
      case listed: InMemoryFileIndex if listed.rootPaths.sizeIs == 1 =>
        val files = listed.allFiles()
        files.sizeIs > 1 || files.exists(_.getLen > SmallFile)
      case _ => true
    })

  /** Reading this from a store takes about as long as the two or three requests of an index. */
  private val SmallFile = 8L << 20

  /** Drop the table's index from memory: the next scan checks the store. */
  private[skipping] def forget(root: Path): Unit = slots.synchronized(slots.remove(root.toString))

  /**
   * The possible roots of the table, nearest first, lazily; none if an index is not worth it. After pruning, the paths
   * of a partitioned table are the directories of its partitions, possibly thousands, and the scan knows that these are
   * no roots.
   */
  private def roots(relation: HadoopFsRelation, conf: => Configuration): Iterator[Path] = {
    val partitions = relation.partitionSchema.fieldNames.toSeq
    val paths = if (isWorthLooking(relation)) relation.location.rootPaths else Nil
    paths.iterator
      .map(TablePath.abovePartitions(_, partitions))
      .distinct
      .map(path => if (isQualified(path)) path else path.getFileSystem(conf).makeQualified(path))
      .flatMap(TablePath.candidates)
      .distinct
  }

  private def isQualified(path: Path): Boolean = {
    val uri = path.toUri
    uri.getScheme != null && (uri.getAuthority != null || uri.getScheme == "file")
  }

  /** The index's columns that the scan reads from the files with the index's types. */
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

  /** By this ID Spark may read a column from a field of another name. */
  private val FieldId = "parquet.field.id"

  private val MaxSlots = 1000

  /** By root, also for tables without an index, so that not every query checks the store. */
  private val slots = new LinkedHashMap[String, Slot](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JavaMap.Entry[String, Slot]): Boolean = size > MaxSlots
  }

  private def slot(root: Path): Slot =
    slots.synchronized(slots.computeIfAbsent(root.toString, _ => new Slot(root)))

  /** Up to this multiple of the age, callers get the old index while the catalog checks the store. */
  private val Soon = 6

  private val Lookers = 4

  private val looking = {
    val pool = new ThreadPoolExecutor(
      Lookers,
      Lookers,
      5,
      TimeUnit.SECONDS,
      new LinkedBlockingQueue[Runnable],
      { task =>
        val thread = new Thread(task, "penstock-skipping-look")
        thread.setDaemon(true)
        thread
      }
    )
    pool.allowCoreThreadTimeOut(true)
    pool
  }

  /**
   * The state of one root. Its lock is held while the manifest is read, so that only one of several queries reads it.
   */
  private class Slot(root: Path) {
    @volatile private var known = Option.empty[Known]
    private val isLooking = new AtomicBoolean
    @volatile private var warned = Option.empty[String]

    def look(conf: => Configuration, ageMs: Long): Option[DeferredIndex] = {
      // Memory may have been needed for something else.
      val held = known.flatMap(former => former.held.map(former -> _))
      held match {
        case Some((former, index)) if former.isYounger(ageMs) => index
        case Some((former, index)) if former.isYounger(Soon * ageMs) =>
          lookMeanwhile(conf, ageMs, Set.empty)
          index
        case _ => lookNow(conf, ageMs)
      }
    }

    def expect(conf: => Configuration, ageMs: Long, columns: Set[String]): Unit = {
      val held = known.filter(_.isYounger(ageMs)).flatMap(_.held)
      if (ageMs > 0 && held.forall(_.exists(isToBeLoaded(_, columns)))) lookMeanwhile(conf, ageMs, columns)
    }

    private def isToBeLoaded(index: DeferredIndex, columns: Set[String]): Boolean =
      !index.isLoaded && index.columns.exists(column => columns(column.name))

    private def lookMeanwhile(conf: => Configuration, ageMs: Long, columns: Set[String]): Unit =
      if (isLooking.compareAndSet(false, true)) looking.execute { () =>
        try lookNow(conf, ageMs).filter(isToBeLoaded(_, columns)).foreach(_.load())
        // The session may have ended in between.
        catch { case NonFatal(e) => log.debug(s"The skipping index of $root could not be checked", e) }
        finally isLooking.set(false)
      }

    private def lookNow(conf: => Configuration, ageMs: Long): Option[DeferredIndex] = synchronized {
      val held = known.flatMap(former => former.held.map(former -> _))
      held match {
        case Some((former, index)) if former.isYounger(ageMs) => index
        case _ =>
          val former = for ((former, index) <- held; (id, _) <- former.found; table <- index) yield (id, table)
          val found = read(conf, former)
          known = Some(Known(System.nanoTime, found.map { case (id, index) => (id, new SoftReference(index)) }))
          found.map(_._2)
      }
    }

    private def read(conf: Configuration, former: Option[(String, DeferredIndex)]): Option[(String, DeferredIndex)] =
      try
        new IndexStore(root, conf)
          .read()
          .map(manifest => former.filter(_._1 == manifest.id).getOrElse(manifest.id -> deferred(manifest, conf)))
      catch {
        case e: IndexDamage =>
          warn(s"${e.getMessage}; until then no file is skipped", e)
          None
        case NonFatal(e) =>
          warn(s"The skipping index of $root could not be checked: $e", e)
          former
      }

    private def deferred(manifest: Manifest, conf: Configuration): DeferredIndex = {
      val files = manifest.parts.map(_.entries).sum.min(Int.MaxValue.toLong).toInt
      new DeferredIndex(root.toString, manifest.plan.map(_.column), files, () => load(manifest, conf))
    }

    private def load(manifest: Manifest, conf: Configuration): Option[TableIndex] = {
      val start = System.nanoTime
      val columns = manifest.plan.map(_.column)
      val asked = manifest.plan.flatMap(planned => planned.asked.map(planned.column.name -> _)).toMap
      try {
        val index = TableIndex.of(root.toString, columns, new IndexStore(root, conf).entries(manifest, columns), asked)
        warned = None
        val milliseconds = (System.nanoTime - start) / 1000000
        log.info(s"The skipping index of $root was loaded in $milliseconds ms: ${index.files} files")
        Some(index)
      } catch {
        case NonFatal(e) =>
          val what = e match {
            case damage: IndexDamage => damage.getMessage
            case other => s"The skipping index of $root could not be loaded: $other"
          }
          warn(s"$what; until then no file is skipped", e)
          // Until the next check of the store the table counts as one without an index.
          if (known.exists(_.found.exists(_._1 == manifest.id))) known = Some(Known(System.nanoTime, None))
          None
      }
    }

    private def warn(message: String, cause: Throwable): Unit = if (!warned.contains(message)) {
      warned = Some(message)
      log.warn(message)
      log.debug("Cause", cause)
    }
  }

  /** @param found the ID of the manifest and its index, if there is one */
  private case class Known(atNs: Long, found: Option[(String, SoftReference[DeferredIndex])]) {

    def isYounger(ageMs: Long): Boolean = System.nanoTime - atNs < ageMs * 1000000

    /** The index, if any; the outer None: there is one that is no longer in memory. */
    def held: Option[Option[DeferredIndex]] = found match {
      case None => Some(None)
      case Some((_, index)) => Option(index.get).map(Some(_))
    }
  }
}

/** An index restricted to the columns that one scan may use. */
private class ScanIndex(index: TableIndex, usable: Set[String]) extends TableIndex {
  override def root: String = index.root
  override def files: Int = index.files
  override def columns: Seq[IndexedColumn] = index.columns.filter(column => usable(column.name))
  override def column(name: String): Option[ColumnSummary] = if (usable(name)) index.column(name) else None
  override def find(directory: String, name: String, length: Long, modificationMs: Long): Int =
    index.find(directory, name, length, modificationMs)
  override def select(filter: io.penstock.skipping.model.FileFilter): java.util.BitSet = index.select(filter)
}
