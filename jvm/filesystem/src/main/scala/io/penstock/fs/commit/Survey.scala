package io.penstock.fs.commit

import scala.collection.mutable

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

  /** Generations of a journal that came before the latest, or outcomes that nobody asks for any more. */
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
    Journal.tableOf(bucket, listed.key) match {
      case Some(table) => journals.getOrElseUpdate(table, mutable.Buffer.empty) += listed
      case None if Journal.isTransient(listed) => outcomes += listed
      case None =>
        for ((kind, root) <- workingTree(listed.key)) trees.getOrElseUpdate((kind, root), new TreeUnderWay).add(listed)
    }
  }

  def objects: Long = seen

  /** Tables with a journal whose latest generation was decided and not finished. */
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
          table.copy(key = table.key + Journal.Directory),
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
