package io.penstock.fs.commit

import java.io.IOException

import org.apache.hadoop.fs.Path
import org.slf4j.LoggerFactory

/**
 * Finds what killed jobs have left below a prefix: finishes what was decided, removes what was not.
 *
 * Decided jobs are finished whatever their age: doing so beside a driver that lives is harmless. Everything else must
 * have been left alone since `cutoff` (milliseconds since 1970, by the store's clock).
 */
final private[commit] class Sweep(buckets: Buckets, parallel: Parallel, cutoff: Long, dryRun: Boolean) {

  import Sweep._

  def run(place: Location): Report = {
    val bucket = buckets(place.bucket)
    val survey = new Survey(place.bucket)
    bucket.list(place.key).foreach(survey.add)
    val finished = survey.unfinished.flatMap(finish)

    val leftovers = survey.leftovers ++ Survey.grouped(place.bucket, bucket.uploads(place.key)).filterNot { uploads =>
      // In a dry run the uploads of what would be finished are still there.
      uploads.job.exists(job => finished.exists(_.job.contains(job)))
    }
    val removable = Survey.removable(leftovers, cutoff)
    Report(survey.objects, finished ++ leftovers.map(handle(bucket, _, removable)))
  }

  private def finish(table: Location): Option[Row] = {
    val record =
      if (dryRun) {
        val journal = new Journal(buckets(table.bucket), table)
        journal.latest().flatMap(entry => journal.read(entry.generation))
      } else new TableCommit(buckets, table, parallel, patience = 0).rollForward()
    record.map { record =>
      val bytes = record.uploads.iterator.map(_.bytes).sum
      val action = if (dryRun) "would finish" else "finished"
      Row("commit", table.toString, Some(record.job), record.uploads.size, bytes, record.decided, action)
    }
  }

  private def handle(bucket: Bucket, leftover: Leftover, removable: Leftover => Boolean): Row = {
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

  private def remove(bucket: Bucket, leftover: Leftover): Unit = leftover match {
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
    val buckets = new Buckets(name => new S3ABucket(Buckets.fileSystem(root, name, arguments.conf)))
    new Sweep(buckets, Parallel.of(arguments.conf), arguments.before, arguments.dryRun).run(arguments.place)
  }
}
