package io.penstock.workloads.ingest

import java.io.FileNotFoundException

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}

import io.penstock.workloads.clients.{Content, ContentStream}

/** Faults of one kind: their number, and the first names with the fault of each. */
case class Faults(count: Long, named: Vector[String]) {
  def +(other: Faults): Faults = Faults(count + other.count, (named ++ other.named).take(Faults.Named))
}

object Faults {
  private val Named = 20
  val none: Faults = Faults(0, Vector.empty)

  def of(names: Iterable[String]): Faults = Faults(names.size.toLong, names.take(Named).toVector)
}

/** The findings in one or more folders. Bounded, however many objects there are. */
case class Findings(objects: Long, bytes: Long, missing: Faults, extra: Faults, differing: Faults) {
  def +(other: Findings): Findings = Findings(
    objects + other.objects,
    bytes + other.bytes,
    missing + other.missing,
    extra + other.extra,
    differing + other.differing
  )
}

object Findings {
  val none: Findings = Findings(0, 0, Faults.none, Faults.none, Faults.none)
}

/** Lists what is below `location` and reads every object of it, comparing each byte with what was written. */
class Inspection(location: String, content: Content, objectBytes: Long, configuration: Configuration) {

  private val root = new Path(location)
  private val fileSystem: FileSystem = root.getFileSystem(configuration)

  /**
   * The folders to be inspected, and what is in nobody's folder. Attempts that are there but not in `written` are those
   * whose executor was lost.
   */
  def folders(written: Seq[Written]): (Seq[Folder], Faults) = {
    val reported = written.map(one => one.series -> one).toMap
    def began(series: Series) =
      written.exists(one => one.series.writer == series.writer && series.attempt <= one.series.attempt)
    val (strange, found) = parted(root)(Series.ofDirectory(_).filter(began))
    val parts = (found.toSet ++ reported.keySet).toSeq.sortBy(one => (one.writer, one.attempt)).map { series =>
      val (unknown, indices) = parted(new Path(root, series.directory)) { name =>
        name.toLongOption.filter(index => series.folder(index) == s"${series.directory}/$name")
      }
      val folders = reported.get(series) match {
        case Some(one) => Folder.all(series, one.objects, one.objects + (if (one.unsure) 1 else 0), indices.toSet)
        case None => Folder.ofLost(series, indices.toSet)
      }
      (folders, unknown.map(name => s"${series.directory}/$name"))
    }
    (parts.flatMap(_._1), Faults.of(strange ++ parts.flatMap(_._2)))
  }

  def inspect(folder: Folder): Findings = {
    val there = list(new Path(root, folder.path)).map(status => nameOf(status) -> status).toMap
    def byName(sequences: Seq[Long]) = sequences.map(number => new Path(folder.series.name(number)).getName -> number)
    val required = byName(folder.required)
    val (present, absent) = (required ++ byName(folder.optional)).partition { case (name, _) => there.contains(name) }
    val missing = absent.filter(required.contains).map { case (name, _) => s"${folder.path}/$name" }
    val extra = (there.keySet -- present.map(_._1)).toSeq.sorted.map(name => s"${folder.path}/$name")
    val stream = new ContentStream(content)
    val differing = present.flatMap { case (_, sequence) => difference(stream, folder.series, sequence) }
    val bytes = present.map { case (name, _) => there(name).getLen }.sum
    Findings(present.size.toLong, bytes, Faults.of(missing), Faults.of(extra), Faults.of(differing))
  }

  private def difference(stream: ContentStream, series: Series, sequence: Long): Option[String] = {
    val path = new Path(root, series.name(sequence))
    Using
      .resource(fileSystem.open(path))(stream.difference(_, series.content(sequence), objectBytes)(_ => ()))
      .map(what => s"${series.name(sequence)} $what")
  }

  /**
   * The names of what is in a directory that `parse` knows nothing of, and what it made of the directories it knows.
   */
  private def parted[T](directory: Path)(parse: String => Option[T]): (Seq[String], Seq[T]) =
    list(directory).partitionMap { status =>
      Option(nameOf(status)).filter(_ => status.isDirectory).flatMap(parse).toRight(nameOf(status))
    }

  private def nameOf(status: FileStatus): String = status.getPath.getName

  private def list(directory: Path): Seq[FileStatus] =
    try fileSystem.listStatus(directory).toSeq
    catch { case _: FileNotFoundException => Nil }
}

/**
 * The objects of one writer, named so that what should be there follows from how many there are. A writer that began
 * again in another executor is another attempt, with names of its own: nobody's objects are overwritten.
 */
case class Series(writer: Int, attempt: Int) {
  import Series._

  def directory: String = f"writer-$writer%05d-$attempt%02d"

  def folder(index: Long): String = f"$directory/$index%08d"

  def name(sequence: Long): String = f"${folder(sequence / InFolder)}/$sequence%010d"

  /** The number that an object's content is made from: no two objects share one. */
  def content(sequence: Long): Long = (writer.toLong << 44) | (attempt.toLong << 36) | sequence
}

object Series {

  /** Objects in one folder: what one request lists. */
  val InFolder = 100L

  private val Directory = """writer-(\d{5,9})-(\d{2,9})""".r

  /** None where no writer writes there. */
  def ofDirectory(name: String): Option[Series] = name match {
    case Directory(writer, attempt) => Some(Series(writer.toInt, attempt.toInt)).filter(_.directory == name)
    case _ => None
  }
}

/**
 * A folder to be inspected: the objects numbered below `written` must be there, those from there to below `allowed` may
 * (their PUT failed, which does not say that nothing was stored), and no others.
 */
case class Folder(series: Series, index: Long, written: Long, allowed: Long) {
  private def from = index * Series.InFolder
  private def until(bound: Long): Long = math.max(from, math.min(bound, from + Series.InFolder))

  def path: String = series.folder(index)
  def required: Seq[Long] = from until until(written)
  def optional: Seq[Long] = until(written) until until(allowed)
}

object Folder {

  /** All folders of a series: those that must be there and those that are. */
  def all(series: Series, written: Long, allowed: Long, found: Set[Long]): Seq[Folder] = {
    val needed = 0L until (written + Series.InFolder - 1) / Series.InFolder
    (needed.toSet ++ found).toSeq.sorted.map(Folder(series, _, written, allowed))
  }

  /**
   * The folders of an attempt whose count was lost with its executor: every folder but the last must be full, and the
   * last may have any number of objects.
   */
  def ofLost(series: Series, found: Set[Long]): Seq[Folder] =
    if (found.isEmpty) Nil else all(series, found.max * Series.InFolder, (found.max + 1) * Series.InFolder, found)
}
