package io.penstock.skipping.index

import java.io.{FileNotFoundException, IOException}
import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{EtagSource, FileStatus, Path}
import org.slf4j.LoggerFactory

import io.penstock.skipping.model.{AtomicFile, IndexedColumn, ParallelMap}

/**
 * The files of one table's index: the manifest and the parts that it names.
 *
 * A writer first writes parts, under unique names, which never change, and last replaces the manifest atomically. So
 * readers see one whole index or another, and the remains of a killed writer belong to none. Any number of threads and
 * processes may read and write; methods throw an `IOException` where the store fails.
 */
private[skipping] class IndexStore(root: Path, conf: Configuration) {

  import IndexStore._

  private val directory = new Path(root, TablePath.IndexDirectory)
  private val manifest = new Path(directory, ManifestName)
  private val fs = root.getFileSystem(conf)

  private def part(name: String): Path = new Path(directory, name)

  /**
   * The time that the file system gives to a new file, in milliseconds since 1970; a store of whole seconds may round
   * it down.
   */
  def clock(): Long = {
    val probe = new Path(directory, s".clock-${UUID.randomUUID}")
    fs.create(probe, false).close()
    try fs.getFileStatus(probe).getModificationTime
    finally fs.delete(probe, false): Unit
  }

  /** The manifest; None where there is no index. Throws an [[IndexDamage]] where it is unusable. */
  def read(): Option[Manifest] =
    try {
      val in = fs.open(manifest)
      try Some(named(Manifest.read(in.readAllBytes(), root.toString)))
      finally in.close()
    } catch { case _: FileNotFoundException => None }

  /**
   * All entries with these columns, possibly none. The iterator throws an [[IndexDamage]] where a part differs from the
   * manifest.
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

  /** Write the entries to a part, which no manifest names yet. None where there are no entries. */
  def write(entries: Iterator[FileEntry], columns: Seq[IndexedColumn]): Option[Manifest.Part] =
    Option.when(entries.hasNext) {
      val name = s"$PartPrefix${UUID.randomUUID}"
      val count = EntryWriter.write(entries, columns, part(name), conf)
      Manifest.Part(name, fs.getFileStatus(part(name)).getLen, count)
    }

  /** Delete the index; false if there was none. The manifest goes first, so that an interruption leaves no index. */
  def drop(): Boolean = {
    fs.delete(manifest, false)
    fs.delete(directory, true)
  }

  /**
   * Delete these parts, and the remains of killed writers that are a day older than the manifest, so that no running
   * writer's are among them. A failure is logged and left to the next change.
   */
  def clean(removable: Set[String], published: Manifest): Unit =
    try {
      val now = fs.getFileStatus(manifest).getModificationTime
      val needed = (published.parts.map(_.name) ++ published.superseded.map(_.name)).toSet + ManifestName
      val orphans =
        fs.listStatus(directory).iterator.filter(_.getModificationTime < now - AbandonedMs).map(_.getPath.getName)
      (removable ++ orphans).diff(needed).foreach(name => fs.delete(part(name), false))
    } catch { case e: IOException => log.warn(s"Old parts of the skipping index of $root were not removed: $e") }

  /** Replace the manifest: readers see the former one or this one, whole. */
  def replace(next: Manifest): Unit = AtomicFile.replace(manifest, Manifest.write(next), conf)
}

private[skipping] object IndexStore {
  private val log = LoggerFactory.getLogger(classOf[IndexStore])

  private val Threads = 8
  private val AbandonedMs = 24L * 60 * 60 * 1000

  // Spark takes no file of such a name for data, even where a glob matches its directory; other engines require the
  // suffix `.parquet`.
  val ManifestName = "_manifest.json"
  val PartPrefix = "_part-"
}

/** The paths of a table's files as its index has them, and the places of indexes. */
object TablePath {

  /** The directory of a table's index, below its root. Spark's listing does not see it. */
  val IndexDirectory = "_skipindex"

  /** The relative path of a directory below the root, without slashes at its ends; empty for the root, None outside. */
  def relative(root: Path, directory: Path): Option[String] = relative(root.toString, directory.toString)

  /** The same for absolute, qualified URIs. */
  def relative(root: String, directory: String): Option[String] =
    if (directory == root) Some("")
    else Option.when(directory.startsWith(root + "/"))(directory.substring(root.length + 1))

  /**
   * The possible roots of the table of a scan's path: the path itself and, above partition directories, their parents.
   * Spark takes every directory called `name=value` for a partition.
   */
  def candidates(path: Path): Seq[Path] =
    path +: (Option(path.getParent) match {
      case Some(parent) if path.getName.contains("=") => candidates(parent)
      case _ => Nil
    })

  /**
   * The path without its trailing directories of these partition columns, in whatever case.
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
 *   the listed version of the object, where the file system has ETags
 */
private[skipping] case class ListedFile(
    directory: String,
    name: String,
    length: Long,
    modificationMs: Long,
    etag: Option[String]
) {

  /** Whether the file's present status is one of the listed version. */
  def isVersionOf(now: FileStatus): Boolean = now.getLen == length && ((etag, ListedFile.etag(now)) match {
    // A HEAD request answers whole seconds where some stores' listings have fractions.
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

  /** List the files below a table's root that Spark takes for data. Throws an `IOException`. */
  def list(root: Path, conf: Configuration): Vector[ListedFile] = {
    val builder = Vector.newBuilder[ListedFile]
    // On an object store this is one flat listing for any number of partitions.
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

  /** The rule of Spark's listing: a name with an equals sign is a partition's. */
  private def isHidden(name: String): Boolean = name.startsWith(".") || name.startsWith("_") && !name.contains("=")
}
