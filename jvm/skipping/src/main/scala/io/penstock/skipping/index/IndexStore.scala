package io.penstock.skipping.index

import java.io.{FileNotFoundException, IOException}
import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.slf4j.LoggerFactory

import io.penstock.skipping.AtomicFile

/**
 * The files of one table's index: the manifest and the parts it names.
 *
 * Parts are written first, under names nobody else uses, and never changed; the manifest is replaced last, all at once.
 * So whoever reads sees one whole index or another, and what a writer that died left behind is not part of any.
 */
private[index] class IndexStore(root: Path, conf: Configuration) {

  import IndexStore._

  private val directory = new Path(root, TablePath.IndexDirectory)
  private val manifest = new Path(directory, ManifestName)
  private val fs = root.getFileSystem(conf)

  private def part(name: String): Path = new Path(directory, name)

  /**
   * The time that the file system gives to a file which is made now, in milliseconds since 1970. Stores that tell whole
   * seconds are at this time or past it.
   */
  def clock(): Long = {
    val probe = new Path(directory, s".clock-${UUID.randomUUID}")
    fs.create(probe, false).close()
    try fs.getFileStatus(probe).getModificationTime
    finally fs.delete(probe, false): Unit
  }

  /** None where there is no index. Throws an [[IndexDamage]] where there is one that cannot be used. */
  def read(): Option[Manifest] =
    try {
      val in = fs.open(manifest)
      try Some(named(Manifest.read(in.readAllBytes(), root.toString)))
      finally in.close()
    } catch { case _: FileNotFoundException => None }

  /**
   * All entries, with these columns of them; without any, just which files are known. An [[IndexDamage]] is thrown
   * where a part is not what the manifest says.
   */
  def entries(manifest: Manifest, columns: Seq[IndexedColumn]): Iterator[FileEntry] =
    Ahead
      .map(manifest.parts.iterator, Threads) { listed =>
        named(EntryReader.read(part(listed.name), listed, columns, conf))
      }
      .flatten

  private def named[A](reading: => A): A =
    try reading
    catch { case e: IndexDamage => throw new IndexDamage(s"The skipping index of $root ${e.getMessage}", e) }

  /** Of the entries, as a part that no manifest names yet. None where there are none. */
  def write(entries: Iterator[FileEntry], columns: Seq[IndexedColumn]): Option[Manifest.Part] =
    Option.when(entries.hasNext) {
      val name = s"$PartPrefix${UUID.randomUUID}"
      val count = EntryWriter.write(entries, columns, part(name), conf)
      Manifest.Part(name, fs.getFileStatus(part(name)).getLen, count)
    }

  /** False: there was nothing to remove. The manifest goes first: what is left by an interruption is no index. */
  def drop(): Boolean = {
    fs.delete(manifest, false)
    fs.delete(directory, true)
  }

  /**
   * Removes these parts, and what writers that died have left: of a day before the manifest was published, so that none
   * of one at work is taken. What cannot be removed now is left to the next change.
   */
  def clean(removable: Set[String], published: Manifest): Unit =
    try {
      val now = fs.getFileStatus(manifest).getModificationTime
      val needed = (published.parts.map(_.name) ++ published.superseded.map(_.name)).toSet + ManifestName
      val orphans =
        fs.listStatus(directory).iterator.filter(_.getModificationTime < now - AbandonedMs).map(_.getPath.getName)
      (removable ++ orphans).diff(needed).foreach(name => fs.delete(part(name), false))
    } catch { case e: IOException => log.warn(s"Old parts of the skipping index of $root were not removed: $e") }

  /** Readers see the former manifest or this one, whole. */
  def replace(next: Manifest): Unit = AtomicFile.replace(manifest, Manifest.write(next), conf)
}

private[index] object IndexStore {
  private val log = LoggerFactory.getLogger(classOf[IndexStore])

  private val Threads = 8
  private val AbandonedMs = 24L * 60 * 60 * 1000

  // Spark takes no file for data whose name starts so, even where a pattern has found its directory; other engines go by
  // the suffix `.parquet`.
  val ManifestName = "_manifest.json"
  val PartPrefix = "_part-"
}
