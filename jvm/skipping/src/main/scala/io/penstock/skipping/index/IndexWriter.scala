package io.penstock.skipping.index

import java.util.UUID

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession

/**
 * Changes the index of one table. Any number may do so at once, in any processes: what each writes is true of the files
 * it speaks of, and whichever manifest comes last stands.
 */
private[index] class IndexWriter(
    spark: SparkSession,
    root: Path,
    now: () => Long = () => System.currentTimeMillis,
    sleep: Long => Unit = Thread.sleep
) {

  private val conf = spark.sessionState.newHadoopConf()
  private val store = new IndexStore(root, conf)

  /** An index of all files in place of what there was, if anything. */
  def build(plan: Seq[PlannedColumn], leftOut: Seq[LeftOut], listed: Vector[ListedFile]): Change = {
    val (written, unsettled) = write(listed, plan)
    val former = formerManifest()
    val manifest = publish(plan, leftOut, written.parts, former.toVector.flatMap(discarded))
    Change(manifest, listed.size, written.parts.map(_.entries).sum, 0, written.unreadable, unsettled)
  }

  /** The index brought up to date. Throws an [[IndexDamage]] where its manifest cannot be used. None: there is none. */
  def refresh(): Option[Change] = store.read().map { manifest =>
    val listed = TableListing.list(root, conf)
    val known =
      try TableIndex.of(root.toString, Seq.empty, store.entries(manifest, Seq.empty))
      // What is left of it cannot be told from what is lost: all files are read anew.
      catch { case _: IndexDamage => TableIndex.of(root.toString, Seq.empty, Seq.empty) }
    update(manifest, known, listed)
  }

  private def update(manifest: Manifest, known: TableIndex, listed: Vector[ListedFile]): Change = {
    val comparison = Refreshing.compare(known, listed)
    val (written, unsettled) = write(comparison.changed, manifest.plan)
    val isIntact = known.files == manifest.parts.map(_.entries).sum
    val parts = (if (isIntact) manifest.parts else Vector.empty) ++ written.parts
    val next =
      if (parts == manifest.parts) manifest else publish(manifest.plan, manifest.leftOut, parts, manifest.superseded)
    val read = written.parts.map(_.entries).sum
    Change(next, listed.size, read, comparison.obsolete, written.unreadable, unsettled)
  }

  private def write(files: Vector[ListedFile], plan: Seq[PlannedColumn]): (IndexBuilder.Written, Int) = {
    val settling = Refreshing.settlingMs(root.toUri.getScheme)
    val wait = Refreshing.waitMs(files, now(), settling)
    if (wait > 0) sleep(wait)
    val (settled, unsettled) = files.partition(Refreshing.isSettled(_, now(), settling))
    (IndexBuilder.write(spark, root, settled, plan), unsettled.size)
  }

  private def publish(
      plan: Seq[PlannedColumn],
      leftOut: Seq[LeftOut],
      parts: Vector[Manifest.Part],
      superseded: Vector[Manifest.Superseded]
  ): Manifest = {
    val id = UUID.randomUUID.toString
    val next =
      Manifest(Manifest.Format, id, root.toString, Manifest.columns(plan), leftOut.toVector, parts, superseded)
    store.replace(next)
    IndexCatalog.forget(root)
    next
  }

  private def formerManifest(): Option[Manifest] =
    try store.read()
    catch { case _: IndexDamage => None }

  private def discarded(former: Manifest): Vector[Manifest.Superseded] =
    former.superseded ++ former.parts.map(part => Manifest.Superseded(part.name, now()))
}
