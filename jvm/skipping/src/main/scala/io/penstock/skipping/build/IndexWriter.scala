package io.penstock.skipping.build

import java.util.{BitSet, UUID}

import scala.collection.mutable
import scala.reflect.ClassTag

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.SparkContext
import org.apache.spark.sql.SparkSession
import org.apache.spark.util.SerializableConfiguration
import org.slf4j.LoggerFactory

import io.penstock.skipping.index.{
  FileEntry,
  IndexCatalog,
  IndexDamage,
  IndexStore,
  LeftOut,
  ListedFile,
  Manifest,
  NextManifest,
  PlannedColumn,
  TableIndex,
  TableListing
}

/**
 * Changes the index of one table. Any number of writers may run at once, in any processes: each entry is correct for
 * its file, and a writer keeps what others published meanwhile. Where two publish in the same instant, the last one
 * stands, and files that only the other has read have no entry until the next refresh.
 */
private[skipping] class IndexWriter(
    spark: SparkSession,
    root: Path,
    now: () => Long = () => System.currentTimeMillis,
    sleep: Long => Unit = Thread.sleep
) {

  import IndexWriter._

  private val store = new IndexStore(root, spark.sessionState.newHadoopConf())

  /** Build an index of these files, in place of a former one. */
  def build(plan: Seq[PlannedColumn], leftOut: Seq[LeftOut], listed: Vector[ListedFile]): Change = {
    val reading = read(listed, plan)
    val latest =
      try store.read()
      catch { case _: IndexDamage => None }
    publish(NextManifest.anew(newId(), root.toString, plan, leftOut, reading.parts, latest, now()), latest)
    Change(listed.size, reading.files, 0, reading.unreadable, reading.unsettled)
  }

  /** Refresh the index; None where there is none. Throws an [[IndexDamage]] where its manifest is unusable. */
  def refresh(): Option[Change] = store.read().map { manifest =>
    val listed = TableListing.list(root, spark.sessionState.newHadoopConf())
    try update(manifest, TableIndex.of(root.toString, Seq.empty, store.entries(manifest, Seq.empty)), listed)
    catch {
      case e: IndexDamage =>
        // Nothing says which files a missing part covered.
        log.warn(s"${e.getMessage}; all files are read anew")
        build(manifest.plan, manifest.leftOut, listed)
    }
  }

  private def update(base: Manifest, known: TableIndex, listed: Vector[ListedFile]): Change = {
    val comparison = RefreshPlan.compare(known, listed)
    val reading = read(comparison.changed, base.plan)
    val isCompacted = RefreshPlan.isCompactionDue(base.parts.size + reading.parts.size, comparison)
    val compacted = if (isCompacted) compact(base, comparison).toVector else Vector.empty
    val dropped = if (isCompacted) base.parts.map(_.name).toSet else Set.empty[String]
    if (isCompacted || reading.parts.nonEmpty) {
      val latest = store.read()
      NextManifest
        .onTop(newId(), base, latest, compacted ++ reading.parts, dropped, now())
        .foreach(publish(_, latest))
    }
    Change(listed.size, reading.files, comparison.obsolete, reading.unreadable, reading.unsettled)
  }

  /** The entries of all parts that are still valid, in one part. */
  private def compact(base: Manifest, comparison: RefreshPlan.Comparison): Option[Manifest.Part] = {
    val columns = base.plan.map(_.column)
    val entries = store.entries(base, columns).zipWithIndex.collect {
      case (entry, number) if comparison.current.get(number) => entry
    }
    store.write(entries, columns)
  }

  private def read(files: Vector[ListedFile], plan: Seq[PlannedColumn]): Reading = {
    val settling = RefreshPlan.settlingMs(root.toUri.getScheme)
    val settledAt = RefreshPlan.settledAt(files, now(), settling)
    // A sleep may end a moment early by the clock of the files' times.
    Iterator.continually(settledAt - now()).takeWhile(_ > 0).take(MaxSleeps).foreach(sleep)
    val time = if (files.isEmpty) now() else clock()
    val (settled, unsettled) = files.partition(RefreshPlan.isSettled(_, time, settling))
    val written = IndexBuilder.write(spark, root, settled, plan)
    written.unreadable.take(LoggedFiles).foreach { file =>
      log.warn(s"The skipping index of $root knows nothing of ${file.path}, which could not be read: ${file.why}")
    }
    Reading(written.parts, written.unreadable, unsettled.size)
  }

  /** The time by the clock of the files. This machine's may be ahead of it, and new files would look settled. */
  private def clock(): Long = if (root.toUri.getScheme == "file") now() else store.clock()

  private def publish(next: Manifest, latest: Option[Manifest]): Unit = {
    store.replace(next)
    IndexCatalog.forget(root)
    store.clean(NextManifest.removable(next, latest), next)
  }

  private def newId(): String = UUID.randomUUID.toString
}

private object IndexWriter {
  private val log = LoggerFactory.getLogger(classOf[IndexWriter])

  private val LoggedFiles = 5

  /** A bound for the case that a clock is set back meanwhile. */
  private val MaxSleeps = 3

  private case class Reading(parts: Vector[Manifest.Part], unreadable: Seq[ParquetScan.Unreadable], unsettled: Int) {
    def files: Long = parts.map(_.entries).sum
  }
}

/**
 * The result of a change of an index.
 *
 * @param listed
 *   the number of the table's files
 * @param read
 *   the number of files that were read
 * @param obsolete
 *   the number of entries of deleted and replaced files
 * @param unreadable
 *   files without an entry, each with the reason; each refresh tries them again
 * @param unsettled
 *   the number of files that were written just now, which are left to the next refresh
 */
case class Change(
    listed: Int,
    read: Long,
    obsolete: Int,
    unreadable: Seq[ParquetScan.Unreadable],
    unsettled: Int
)

/** The work of a refresh. Pure functions of the index and the listing. */
private[skipping] object RefreshPlan {

  /**
   * @param changed
   *   files whose present version has no entry
   * @param current
   *   the numbers of entries of listed files; all others are obsolete
   */
  case class Comparison(changed: Vector[ListedFile], current: BitSet, entries: Int) {
    def obsolete: Int = entries - current.cardinality
  }

  def compare(known: TableIndex, listed: Vector[ListedFile]): Comparison = {
    val current = new BitSet(known.files)
    val changed = listed.filter { file =>
      val number = known.find(file.directory, file.name, file.length, file.modificationMs)
      if (number >= 0) current.set(number)
      number < 0
    }
    Comparison(changed, current, known.files)
  }

  /** Whether a compaction pays: there are too many parts, or too many obsolete entries. */
  def isCompactionDue(parts: Int, comparison: Comparison): Boolean =
    parts > MaxParts || comparison.obsolete > math.max(FewEntries, comparison.entries / 4)

  /** More parts are slow to load. */
  private val MaxParts = 32
  private val FewEntries = 100

  /**
   * The age at which a file is settled and may be read, in milliseconds. S3's times are whole seconds by the store's
   * clock: an object that is overwritten in the second of its reading looks unchanged if its length is the same. Local
   * files have this machine's clock, and times in milliseconds.
   */
  def settlingMs(scheme: String): Long = if (scheme == "file") 100 else 2000

  /**
   * The time at which the youngest of these files is settled, in milliseconds since 1970. A file with a time in the
   * future counts where a clock that is slightly ahead explains it, and is left to the next refresh otherwise.
   */
  def settledAt(files: Iterable[ListedFile], now: Long, settlingMs: Long): Long =
    files.iterator.map(_.modificationMs).filter(_ <= now + settlingMs).maxOption.fold(now)(_ + settlingMs)

  def isSettled(file: ListedFile, now: Long, settlingMs: Long): Boolean = file.modificationMs + settlingMs <= now
}

/**
 * Spark jobs that read files. Each task writes its entries to a part of its own, so that the driver need not hold those
 * of a large table.
 */
private[skipping] object IndexBuilder {

  /** @param unreadable files without an entry, each with the reason */
  case class Written(parts: Vector[Manifest.Part], unreadable: Vector[ParquetScan.Unreadable])

  /** Write the entries of these files to parts, which are not in the index until a manifest names them. */
  def write(spark: SparkSession, root: Path, files: Seq[ListedFile], plan: Seq[PlannedColumn]): Written = {
    val written = run(spark, root, files, plan, fromData = true) { (outcomes, conf) =>
      val unreadable = mutable.ArrayBuffer.empty[ParquetScan.Unreadable]
      val entries = outcomes.flatMap {
        case ParquetScan.Known(entry) => Some(entry)
        case file: ParquetScan.Unreadable =>
          unreadable += file
          None
        case ParquetScan.Gone => None
      }
      val part = new IndexStore(root, conf).write(entries, plan.map(_.column))
      Written(part.toVector, unreadable.toVector)
    }
    Written(written.flatMap(_.parts).toVector, written.flatMap(_.unreadable).toVector)
  }

  /** The entries of a few files, from footers and dictionaries alone. */
  def read(spark: SparkSession, root: Path, files: Seq[ListedFile], plan: Seq[PlannedColumn]): Seq[FileEntry] =
    run(spark, root, files, plan, fromData = false)((outcomes, _) =>
      outcomes.collect { case ParquetScan.Known(entry) => entry }.toVector
    ).flatten

  private def run[A: ClassTag](
      spark: SparkSession,
      root: Path,
      files: Seq[ListedFile],
      plan: Seq[PlannedColumn],
      fromData: Boolean
  )(
      work: (Iterator[ParquetScan.Outcome], Configuration) => A
  ): Seq[A] =
    if (files.isEmpty) Seq.empty
    else {
      val context = spark.sparkContext
      val conf = context.broadcast(new SerializableConfiguration(spark.sessionState.newHadoopConf()))
      val tasks = math.min(context.defaultParallelism, files.size / ParquetScan.Threads + 1)
      described(context, s"Skipping index of $root: reading ${files.size} files") {
        context
          .parallelize(files, tasks)
          .mapPartitions { batch =>
            Iterator.single(work(new ParquetScan(root, plan, fromData, conf.value.value).read(batch), conf.value.value))
          }
          .collect()
          .toSeq
      }
    }

  /** Run the action with a job description for the Spark UI. */
  private def described[A](context: SparkContext, description: String)(action: => A): A = {
    val former = context.getLocalProperty(Description)
    context.setJobDescription(description)
    try action
    finally context.setLocalProperty(Description, former)
  }

  private val Description = "spark.job.description"
}
