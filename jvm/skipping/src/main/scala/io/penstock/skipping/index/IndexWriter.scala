package io.penstock.skipping.index

import java.util.UUID

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.slf4j.LoggerFactory

/**
 * Changes the index of one table. Any number may do so at once, in any processes: what each writes is true of the files
 * it speaks of, and what others published meanwhile is kept. Should two publish in the same instant, the last stands,
 * and the files that only the other has read are unknown until the next refresh.
 */
private[index] class IndexWriter(
    spark: SparkSession,
    root: Path,
    now: () => Long = () => System.currentTimeMillis,
    sleep: Long => Unit = Thread.sleep
) {

  import IndexWriter._

  private val store = new IndexStore(root, spark.sessionState.newHadoopConf())

  /** An index of these files in place of what there was, if anything. */
  def build(plan: Seq[PlannedColumn], leftOut: Seq[LeftOut], listed: Vector[ListedFile]): Change = {
    val reading = read(listed, plan)
    val latest =
      try store.read()
      catch { case _: IndexDamage => None }
    publish(Publishing.anew(newId(), root.toString, plan, leftOut, reading.parts, latest, now()), latest)
    Change(listed.size, reading.files, 0, reading.unreadable, reading.unsettled)
  }

  /** The index brought up to date. Throws an [[IndexDamage]] where its manifest cannot be used. None: there is none. */
  def refresh(): Option[Change] = store.read().map { manifest =>
    val listed = TableListing.list(root, spark.sessionState.newHadoopConf())
    try update(manifest, TableIndex.of(root.toString, Seq.empty, store.entries(manifest, Seq.empty)), listed)
    catch {
      case e: IndexDamage =>
        // Of an index with a part missing nothing says which files that part knew.
        log.warn(s"${e.getMessage}; all files are read anew")
        build(manifest.plan, manifest.leftOut, listed)
    }
  }

  private def update(base: Manifest, known: TableIndex, listed: Vector[ListedFile]): Change = {
    val comparison = Refreshing.compare(known, listed)
    val reading = read(comparison.changed, base.plan)
    val isCompacted = Refreshing.isCompactionDue(base.parts.size + reading.parts.size, comparison)
    val compacted = if (isCompacted) compact(base, comparison).toVector else Vector.empty
    val dropped = if (isCompacted) base.parts.map(_.name).toSet else Set.empty[String]
    if (isCompacted || reading.parts.nonEmpty) {
      val latest = store.read()
      Publishing
        .onTop(newId(), base, latest, compacted ++ reading.parts, dropped, now())
        .foreach(publish(_, latest))
    }
    Change(listed.size, reading.files, comparison.obsolete, reading.unreadable, reading.unsettled)
  }

  /** What is still of use of all parts, in one. */
  private def compact(base: Manifest, comparison: Refreshing.Comparison): Option[Manifest.Part] = {
    val columns = base.plan.map(_.column)
    val entries = store.entries(base, columns).zipWithIndex.collect {
      case (entry, number) if comparison.current.get(number) => entry
    }
    store.write(entries, columns)
  }

  private def read(files: Vector[ListedFile], plan: Seq[PlannedColumn]): Reading = {
    val settling = Refreshing.settlingMs(root.toUri.getScheme)
    val settledAt = Refreshing.settledAt(files, now(), settling)
    // A sleep may end a moment early by the clock that gave the files their times.
    Iterator.continually(settledAt - now()).takeWhile(_ > 0).take(MaxSleeps).foreach(sleep)
    val time = if (files.isEmpty) now() else clock()
    val (settled, unsettled) = files.partition(Refreshing.isSettled(_, time, settling))
    val written = IndexBuilder.write(spark, root, settled, plan)
    written.unreadable.take(LoggedFiles).foreach { file =>
      log.warn(s"The skipping index of $root knows nothing of ${file.path}, which could not be read: ${file.why}")
    }
    Reading(written.parts, written.unreadable, unsettled.size)
  }

  /** By which files have their times. This machine's may be ahead of it: then what is new would look settled. */
  private def clock(): Long = if (root.toUri.getScheme == "file") now() else store.clock()

  private def publish(next: Manifest, latest: Option[Manifest]): Unit = {
    store.replace(next)
    IndexCatalog.forget(root)
    store.clean(Publishing.removable(next, latest), next)
  }

  private def newId(): String = UUID.randomUUID.toString
}

private object IndexWriter {
  private val log = LoggerFactory.getLogger(classOf[IndexWriter])

  private val LoggedFiles = 5

  /** More than enough, unless a clock is set back meanwhile. */
  private val MaxSleeps = 3

  private case class Reading(parts: Vector[Manifest.Part], unreadable: Seq[FileScan.Unreadable], unsettled: Int) {
    def files: Long = parts.map(_.entries).sum
  }
}
