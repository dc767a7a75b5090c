package io.penstock.skipping.index

import java.io.{FileNotFoundException, IOException}
import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{EtagSource, FileStatus, Path}
import org.slf4j.LoggerFactory

import io.penstock.skipping.model.{AtomicFile, IndexedColumn, ParallelMap}

/**
 * The files of one table's index: the manifest and the parts it names.
 *
 * Parts are written first, under names nobody else uses, and never changed; the manifest is replaced last, all at once.
 * So whoever reads sees one whole index or another, and what a writer that died left behind is not part of any.
 */
private[skipping] class IndexStore(root: Path, conf: Configuration) {

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
    ParallelMap
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

private[skipping] object IndexStore {
  private val log = LoggerFactory.getLogger(classOf[IndexStore])

  private val Threads = 8
  private val AbandonedMs = 24L * 60 * 60 * 1000

  // Spark takes no file for data whose name starts so, even where a pattern has found its directory; other engines go by
  // the suffix `.parquet`.
  val ManifestName = "_manifest.json"
  val PartPrefix = "_part-"
}

/** How paths of a table's files are written in its index, and where an index may be. */
object TablePath {

  /** The directory of a table's index, below its root. Spark's listing does not see it. */
  val IndexDirectory = "_skipindex"

  /** A directory below a root as the index knows it: without slashes at its ends, the root itself empty. */
  def relative(root: Path, directory: Path): Option[String] = relative(root.toString, directory.toString)

  /** See above; both are absolute and qualified. */
  def relative(root: String, directory: String): Option[String] =
    if (directory == root) Some("")
    else Option.when(directory.startsWith(root + "/"))(directory.substring(root.length + 1))

  /**
   * Where the root of the table may be that a scan has this path of: itself and, above partition directories, what
   * holds those. Spark takes directories called `name=value` for partitions wherever it finds them.
   */
  def candidates(path: Path): Seq[Path] =
    path +: (Option(path.getParent) match {
      case Some(parent) if path.getName.contains("=") => candidates(parent)
      case _ => Nil
    })

  /**
   * The path without the directories at its end that are values of these partition columns, however those are spelt.
   */
  def abovePartitions(path: Path, columns: Seq[String]): Path = path.getName.split("=", 2) match {
    case Array(name, _) if path.getParent != null && columns.exists(_.equalsIgnoreCase(name)) =>
      abovePartitions(path.getParent, columns)
    case _ => path
  }
}

/**
 * A data file as the file system lists it; `directory` and `name` as in [[FileEntry]].
 *
 * @param etag
 *   which version of the object was listed, where the file system tells
 */
private[skipping] case class ListedFile(
    directory: String,
    name: String,
    length: Long,
    modificationMs: Long,
    etag: Option[String]
) {

  /** Whether this, which the file system says of the file now, is said of the version that was listed. */
  def isVersionOf(now: FileStatus): Boolean = now.getLen == length && ((etag, ListedFile.etag(now)) match {
    // An object's own answer has whole seconds where some stores' listings have fractions.
    case (Some(listed), Some(present)) => listed == present && now.getModificationTime / 1000 == modificationMs / 1000
    case _ => now.getModificationTime == modificationMs
  })
}

private[skipping] object ListedFile {

  def apply(directory: String, status: FileStatus): ListedFile =
    ListedFile(directory, status.getPath.getName, status.getLen, status.getModificationTime, etag(status))

  private def etag(status: FileStatus): Option[String] = status match {
    case tagged: EtagSource => Option(tagged.getEtag).map(_.replace("\"", "")).filter(_.nonEmpty)
    case _ => None
  }
}

private[skipping] object TableListing {

  /** The files below a table's root that Spark would take for data. Throws an `IOException`. */
  def list(root: Path, conf: Configuration): Vector[ListedFile] = {
    val builder = Vector.newBuilder[ListedFile]
    // On an object store this is one flat listing, whatever the number of partitions.
    val files =
      try root.getFileSystem(conf).listFiles(root, true)
      catch {
        case e: FileNotFoundException =>
          throw new FileNotFoundException(s"There is no table at $root: name the directory its files are in")
            .initCause(e)
      }
    while (files.hasNext) {
      val file = files.next()
      for {
        directory <- TablePath.relative(root, file.getPath.getParent)
        if !isHidden(file.getPath.getName) && !directory.split('/').exists(isHidden) && file.getLen > 0
      } builder += ListedFile(directory, file)
    }
    builder.result()
  }

  /** As Spark's listing has it: a name with an equals sign is a partition's. */
  private def isHidden(name: String): Boolean = name.startsWith(".") || name.startsWith("_") && !name.contains("=")
}
