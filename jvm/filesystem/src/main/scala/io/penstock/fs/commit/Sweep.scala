package io.penstock.fs.commit

import java.io.{FileInputStream, IOException}
import java.nio.file.AccessDeniedException
import java.util.Properties

import scala.annotation.tailrec
import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.slf4j.LoggerFactory

import io.penstock.fs.store.EmptyBodies

/**
 * Finds what killed jobs have left below a prefix: finishes what was decided, removes what was not.
 *
 * Decided jobs are finished whatever their age: doing so beside a driver that lives is harmless. If the prefix has
 * uploads, the sweep also finishes the commits of the tables above it, and keeps the uploads where it may not look
 * there. Everything else must have been left alone since `cutoff` (milliseconds since 1970, by the store's clock).
 */
final private[commit] class Sweep(buckets: ObjectStores, parallel: Parallel, cutoff: Long, dryRun: Boolean) {

  import Sweep._

  def run(place: Location): Report = {
    val bucket = buckets(place.bucket)
    val survey = new Survey(place.bucket)
    bucket.list(place.key).foreach(survey.add)
    val above = if (bucket.uploads(place.key).isEmpty) Vector.empty else Survey.above(place).map(look)
    val finished = (survey.unfinished ++ above.flatMap(_.unfinished)).flatMap(finish)

    val leftovers = survey.leftovers ++ Survey.grouped(place.bucket, bucket.uploads(place.key)).filterNot { uploads =>
      // In a dry run the uploads of what would be finished are still there.
      uploads.job.exists(job => finished.exists(_.job.contains(job)))
    }
    val removable = Survey.removable(leftovers, cutoff)
    val mayBeDecided = above.exists(_.isHidden)
    def mayGo(leftover: Leftover) = leftover match {
      case _: Leftover.Uploads if mayBeDecided => false
      case _ => removable(leftover)
    }
    Report(survey.objects, finished ++ leftovers.map(handle(bucket, _, mayGo)))
  }

  /**
   * Looks for a decided job in a directory above the prefix: uploads below the prefix may be that job's, whose record
   * the prefix does not show. Whoever may list the prefix only cannot know.
   */
  private def look(table: Location): Above =
    try {
      val latest = new CommitLog(buckets(table.bucket), table).latest()
      Above(Option.when(latest.exists(!_.finished))(table), isHidden = false)
    } catch {
      case denied: AccessDeniedException =>
        log.warn(s"Unfinished uploads are kept, since jobs that are decided in $table cannot be seen", denied)
        Above(None, isHidden = true)
    }

  private def finish(table: Location): Option[Row] = {
    val record =
      if (dryRun) {
        val commitLog = new CommitLog(buckets(table.bucket), table)
        commitLog.latest().flatMap(entry => commitLog.read(entry.generation))
      } else new TableCommit(buckets, table, parallel, patience = 0).rollForward()
    record.map { record =>
      val bytes = record.uploads.iterator.map(_.bytes).sum
      val action = if (dryRun) "would finish" else "finished"
      Row("commit", table.toString, Some(record.job), record.uploads.size, bytes, record.decided, action)
    }
  }

  private def handle(bucket: ObjectStore, leftover: Leftover, removable: Leftover => Boolean): Row = {
    val (job, bytes) = leftover match {
      case tree: Leftover.Tree => (None, tree.bytes)
      case uploads: Leftover.Uploads => (uploads.job, parallel.map(uploads.uploads)(bucket.uploadedBytes).sum)
      case _: Leftover.Superseded => (None, 0L)
    }
    val action =
      if (!removable(leftover)) "kept"
      else if (dryRun) "would remove"
      else {
        remove(bucket, leftover)
        "removed"
      }
    Row(leftover.kind, leftover.at.toString, job, leftover.files, bytes, leftover.newest, action)
  }

  private def remove(bucket: ObjectStore, leftover: Leftover): Unit = leftover match {
    case tree: Leftover.Tree => bucket.delete(tree.keys)
    case old: Leftover.Superseded => bucket.delete(old.keys)
    case uploads: Leftover.Uploads =>
      parallel.map(uploads.uploads)(upload => bucket.abort(upload.key, upload.id))
      ()
  }
}

/**
 * `Sweep --settings FILE --bucket NAME --prefix PREFIX --before MILLISECONDS [--dry-run]`: prints one line of JSON. The
 * file holds `fs.s3a.` settings as Java properties; credentials come from where the settings say.
 */
object Sweep {

  private val log = LoggerFactory.getLogger(classOf[Sweep])

  /** `newest` in milliseconds since 1970: when the job last touched it. */
  final private[commit] case class Row(
      kind: String,
      at: String,
      job: Option[String],
      files: Int,
      bytes: Long,
      newest: Long,
      action: String
  )

  /** A directory above the prefix: with a decided job to finish, with none, or one that may not be listed. */
  final private case class Above(unfinished: Option[Location], isHidden: Boolean)

  final private[commit] case class Report(objects: Long, found: Vector[Row])

  def main(arguments: Array[String]): Unit =
    try println(CommitRecord.json.writeValueAsString(sweep(SweepArguments.read(arguments.toList))))
    catch {
      case e: IOException =>
        log.error("The sweep failed", e)
        System.err.println(e.getMessage)
        sys.exit(1)
    }

  private def sweep(arguments: SweepArguments): Report = {
    val root = new Path(s"s3a://${arguments.place.bucket}/")
    val buckets = new ObjectStores(name => new S3AObjectStore(ObjectStores.fileSystem(root, name, arguments.conf)))
    new Sweep(buckets, Parallel.of(arguments.conf), arguments.before, arguments.dryRun).run(arguments.place)
  }
}

final private[commit] case class SweepArguments(conf: Configuration, place: Location, before: Long, dryRun: Boolean)

private[commit] object SweepArguments {

  def read(arguments: List[String]): SweepArguments = {
    @tailrec
    def options(rest: List[String], found: Map[String, String]): Map[String, String] = rest match {
      case Nil => found
      case "--dry-run" :: more => options(more, found + ("--dry-run" -> ""))
      case name :: value :: more if name.startsWith("--") => options(more, found + (name -> value))
      case other :: _ => throw new IllegalArgumentException(s"$other is no option of the sweep")
    }
    val named = options(arguments, Map.empty)
    SweepArguments(
      // It opens the lake as S3A's own class does, and empties commits that it finishes.
      EmptyBodies.added(conf(named("--settings")), named("--bucket")),
      Location(named("--bucket"), named("--prefix")),
      named("--before").toLong,
      named.contains("--dry-run")
    )
  }

  private def conf(file: String): Configuration = {
    val properties = new Properties
    Using.resource(new FileInputStream(file))(properties.load(_))
    val conf = new Configuration
    properties.asScala.foreach { case (name, value) => conf.set(name, value) }
    conf
  }
}

/** What a killed job has left at one place. `newest` is when it last touched it, in milliseconds since 1970. */
private[commit] sealed trait Leftover {
  def kind: String
  def at: Location
  def newest: Long
  def files: Int
}

private[commit] object Leftover {

  /**
   * Output of a committer that renames, or pending data of S3A's own: below a directory that only a running job has.
   */
  final case class Tree(kind: String, at: Location, keys: Vector[String], bytes: Long, newest: Long) extends Leftover {
    override def files: Int = keys.size
  }

  /** Uploads of one job below one directory, or of nobody in particular. */
  final case class Uploads(at: Location, job: Option[String], uploads: Vector[PendingUpload], newest: Long)
      extends Leftover {
    override def kind: String = "uploads"
    override def files: Int = uploads.size
  }

  /** Generations of a commit log that came before the latest, or outcomes that nobody asks for any more. */
  final case class Superseded(at: Location, keys: Vector[String], newest: Long) extends Leftover {
    override def kind: String = "journal"
    override def files: Int = keys.size
  }
}

/** What a listing shows of killed jobs. Pure: it is given what the store lists, once, in order. */
final private[commit] class Survey(bucket: String) {

  import Survey._

  private val trees = mutable.LinkedHashMap.empty[(String, String), TreeUnderWay]
  private val outcomes = mutable.Buffer.empty[Listed]
  private val journals = mutable.LinkedHashMap.empty[Location, mutable.Buffer[Listed]]
  private var seen = 0L

  def add(listed: Listed): Unit = {
    seen += 1
    CommitLog.tableOf(bucket, listed.key) match {
      case Some(table) => journals.getOrElseUpdate(table, mutable.Buffer.empty) += listed
      case None if CommitLog.isTransient(listed) => outcomes += listed
      case None =>
        for ((kind, root) <- workingTree(listed.key)) trees.getOrElseUpdate((kind, root), new TreeUnderWay).add(listed)
    }
  }

  def objects: Long = seen

  /** Tables with a commit log whose latest generation was decided and not finished. */
  def unfinished: Vector[Location] =
    journals.iterator.collect { case (table, entries) if entries.maxBy(_.key).bytes > 0 => table }.toVector

  /** Without uploads, which a listing of objects does not show. */
  def leftovers: Vector[Leftover] =
    trees.iterator.map { case ((kind, root), tree) =>
      Leftover.Tree(kind, Location(bucket, root), tree.keys.toVector, tree.bytes, tree.newest)
    }.toVector ++ journals.iterator.collect {
      // Those before an unfinished one go when it is finished.
      case (table, entries) if entries.size > 1 && entries.maxBy(_.key).bytes == 0 =>
        val old = entries.sortBy(_.key).init
        Leftover.Superseded(
          table.copy(key = table.key + CommitLog.Directory),
          old.iterator.map(_.key).toVector,
          old.iterator.map(_.modified).max
        )
    } ++ outcomes.groupBy(listed => CommitRecord.parent(listed.key)).iterator.map { case (directory, of) =>
      Leftover.Superseded(Location(bucket, directory), of.iterator.map(_.key).toVector, of.iterator.map(_.modified).max)
    }
}

private[commit] object Survey {

  final private class TreeUnderWay {
    val keys: mutable.Buffer[String] = mutable.Buffer.empty
    var bytes = 0L
    var newest = 0L

    def add(listed: Listed): Unit = {
      keys += listed.key
      bytes += listed.bytes
      newest = math.max(newest, listed.modified)
    }
  }

  private val Uuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}".r

  /** The kind and the root of the temporary tree that a key is part of. */
  private[commit] def workingTree(key: String): Option[(String, String)] = {
    val names = key.split("/", -1)
    names.indices.iterator
      .take(names.length - 1)
      .flatMap(index => kindOf(names(index)).map(kind => (kind, names.take(index + 1).mkString("", "/", "/"))))
      .nextOption()
  }

  private def kindOf(name: String): Option[String] =
    if (name == "__magic" || name.startsWith("__magic_job-")) Some("magic")
    else if (name == "_temporary" || name.startsWith("_temporary-")) Some("temporary")
    else if (name.startsWith(".spark-staging-")) Some("staging")
    else None

  /** The directories that a prefix is part of, and whose own objects a listing of it does not show. */
  def above(place: Location): Vector[Location] =
    place.key.indices.iterator
      .filter(at => at == 0 || place.key(at - 1) == '/')
      .map(at => Location(place.bucket, place.key.take(at)))
      .toVector

  /** Uploads by the job whose id is in their name, or else by their directory. */
  def grouped(bucket: String, uploads: Iterator[PendingUpload]): Vector[Leftover.Uploads] =
    uploads.toVector
      .groupBy { upload =>
        val job = Uuid.findFirstIn(upload.key.substring(upload.key.lastIndexOf('/') + 1))
        (job, if (job.isEmpty) CommitRecord.parent(upload.key) else "")
      }
      .iterator
      .map { case ((job, _), of) =>
        val directory = of.iterator.map(upload => CommitRecord.parent(upload.key)).reduce(common)
        Leftover.Uploads(Location(bucket, directory), job, of.sortBy(_.key), of.iterator.map(_.initiated).max)
      }
      .toVector
      .sortBy(_.at.key)

  private def common(a: String, b: String): String =
    a.split("(?<=/)").iterator.zip(b.split("(?<=/)").iterator).takeWhile(p => p._1 == p._2).map(_._1).mkString

  /**
   * What may go: last touched before `cutoff`. Uploads are as young as the newest of their job, and stay while a
   * temporary tree above them does: S3A's own committers upload for as long as their job runs, and touch only the tree.
   */
  def removable(leftovers: Vector[Leftover], cutoff: Long): Leftover => Boolean = {
    val inUse = leftovers.collect {
      case tree: Leftover.Tree if tree.newest >= cutoff => CommitRecord.parent(tree.at.key.dropRight(1))
    }
    leftover =>
      leftover.newest < cutoff && (leftover match {
        case uploads: Leftover.Uploads => !inUse.exists(uploads.at.key.startsWith)
        case _ => true
      })
  }
}
