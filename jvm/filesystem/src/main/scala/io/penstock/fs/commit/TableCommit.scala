package io.penstock.fs.commit

import java.io.IOException

import scala.annotation.tailrec

import org.slf4j.LoggerFactory

import io.penstock.fs.Counters

/**
 * Commits jobs to one table: decides, then carries out.
 *
 * The decision is one object in the table's [[Journal]]. Before it exists nothing of a job is visible, and whoever
 * finds what is left of it may remove that. Once it exists the job is carried out to its end: by its driver, or after
 * the driver's death by the next job that commits to the table, or by the sweep. Each step can be repeated, also by two
 * processes at once: an upload that is no longer there but whose file is was completed by somebody, deletes name
 * objects whose names are never used again.
 *
 * @param patience
 *   milliseconds for which another job's commit is left to its driver before this one finishes it
 */
final private[commit] class TableCommit(
    buckets: Buckets,
    table: Location,
    parallel: Parallel,
    patience: Long,
    sleep: Long => Unit = Thread.sleep
) {

  import TableCommit._

  private val journal = new Journal(buckets(table.bucket), table)

  /**
   * Makes the uploads the table's files in place of everything in `scopes`.
   *
   * An `IOException` says that nothing has happened and nothing will; a [[CommitInterrupted]] that the job is decided,
   * or may be, and that somebody else will carry it out.
   */
  def commit(job: String, uploads: Vector[Upload], scopes: Vector[Location], marker: Option[Location]): Unit =
    decide(job, uploads, scopes, marker) match {
      case Some((generation, record, superseded)) =>
        try carryOut(generation, record, superseded)
        catch {
          case e: CommitLost => throw e
          // Whatever it is: the thread of a stream that is being stopped is interrupted, which is no IOException.
          case e: Exception => throw new CommitInterrupted(job, table, e)
        }
      case None => ()
    }

  /** Finishes what a driver left behind, if anything. Returns the record it finished. */
  def rollForward(): Option[CommitRecord] = {
    val entries = journal.entries()
    entries.lastOption.filterNot(_.finished).flatMap(latest => finishFor(latest, entries))
  }

  /** None where there is nothing to decide, or where somebody else has carried the decision out already. */
  @tailrec
  private def decide(
      job: String,
      uploads: Vector[Upload],
      scopes: Vector[Location],
      marker: Option[Location]
  ): Option[(Long, CommitRecord, Seq[Long])] = {
    val generation = settled() + 1
    val replaced = Replacing.replaced(
      Replacing.outermost(scopes).iterator.flatMap { scope =>
        buckets(scope.bucket).list(scope.key).map(listed => Location(scope.bucket, listed.key))
      },
      table,
      uploads,
      marker
    )
    if (uploads.isEmpty && replaced.isEmpty) {
      marker.foreach(writeMarker(_, job, Vector.empty))
      None
    } else {
      val record =
        CommitRecord(CommitRecord.Version, job, table, uploads, replaced, marker, System.currentTimeMillis)
      if (!append(generation, record)) decide(job, uploads, scopes, marker)
      else
        standing(generation, record) match {
          case Void => decide(job, uploads, scopes, marker)
          case Latest(superseded) => Some((generation, record, superseded))
          case CarriedOut => None
        }
    }
  }

  /** What has become of a record of ours that we saw in the journal. */
  private def standing(generation: Long, record: CommitRecord): Standing =
    try {
      val entries = journal.entries()
      if (entries.lastOption.exists(_.generation == generation)) Latest(entries.map(_.generation).init)
      else if (isUntouched(record)) {
        // We slept between looking and creating, and created what was there before and is superseded.
        journal.withdraw(generation)
        Void
      } else CarriedOut
    } catch { case e: Exception => throw new CommitInterrupted(record.job, table, e) }

  /** Whatever the reply, afterwards it is known whether the record is there, or else who is told so. */
  private def append(generation: Long, record: CommitRecord): Boolean =
    try journal.append(generation, record)
    catch {
      case failure: IOException =>
        val there =
          try journal.holds(generation, record)
          catch { case _: IOException => throw new CommitInterrupted(record.job, table, failure) }
        if (!there) throw failure
        true
    }

  /** Nobody has carried out any of the record: every way of doing so begins with completing its uploads. */
  private def isUntouched(record: CommitRecord): Boolean = record.uploads.headOption match {
    case Some(upload) => buckets(upload.bucket).uploads(upload.key).exists(_.id == upload.id)
    case None => record.replaced.exists(old => buckets(old.bucket).exists(old.key))
  }

  /** The latest generation, finished: by its driver if that makes it in time, or else by us. */
  private def settled(): Long = {
    val deadline = System.nanoTime + patience * 1000000
    @tailrec
    def wait(pause: Long): Long = {
      val entries = journal.entries()
      entries.lastOption match {
        case None => 0
        case Some(latest) if latest.finished => latest.generation
        case Some(latest) =>
          // Only to spare requests: two may carry out one record. So it does not matter that clocks differ.
          val abandoned = System.currentTimeMillis - latest.modified > patience || System.nanoTime > deadline
          if (abandoned) finishFor(latest, entries) else sleep(pause)
          wait(math.min(pause * 2, LongestPause))
      }
    }
    wait(FirstPause)
  }

  private def finishFor(latest: Journal.Entry, entries: Vector[Journal.Entry]): Option[CommitRecord] =
    journal.read(latest.generation).map { record =>
      log.warn(s"Finishing the commit of job ${record.job} to $table, which its driver left behind")
      Counters.CommitsRolledForward.increment()
      try carryOut(latest.generation, record, entries.map(_.generation).filter(_ < latest.generation))
      catch { case lost: CommitLost => log.warn(lost.getMessage) }
      record
    }

  private def carryOut(generation: Long, record: CommitRecord, superseded: Seq[Long]): Unit = {
    val missing = parallel.filter(record.uploads)(upload => !isCompleted(upload))
    if (missing.nonEmpty) {
      // A file that was here may have been replaced by a later job: only if somebody has carried out this record.
      if (!journal.holds(generation, record)) return
      undo(generation, record, missing, superseded)
    }
    for ((bucket, old) <- record.replaced.groupBy(_.bucket)) buckets(bucket).delete(old.map(_.key))
    Leftovers.abort(buckets, parallel, record.job, record.places)
    record.marker.foreach(writeMarker(_, record.job, record.uploads))
    journal.finish(generation, superseded)
    Counters.FilesCommitted.add(record.uploads.size.toLong)
  }

  private def isCompleted(upload: Upload): Boolean = {
    val bucket = buckets(upload.bucket)
    bucket.complete(upload) || Iterator.range(0, Looks).exists { look =>
      if (look > 0) sleep(100L << look)
      bucket.exists(upload.key)
    }
  }

  /**
   * Somebody has aborted uploads of a decided job (a rule of the bucket, a hand). As long as the old data is whole, the
   * table can be as it was. If not, replacing went on after all uploads were complete, and new files were deleted
   * since, which is not ours to repair.
   */
  private def undo(generation: Long, record: CommitRecord, missing: Vector[Upload], superseded: Seq[Long]): Unit = {
    val oldIsWhole = parallel.filter(record.replaced)(old => !buckets(old.bucket).exists(old.key)).isEmpty
    if (oldIsWhole) {
      for ((bucket, files) <- record.uploads.groupBy(_.bucket)) buckets(bucket).delete(files.map(_.key))
      Leftovers.abort(buckets, parallel, record.job, record.places)
      journal.finish(generation, superseded)
      throw new CommitLost(record.job, table, missing)
    }
    log.warn(s"${missing.size} files of job ${record.job} were deleted from $table while it was being committed")
  }

  private def writeMarker(marker: Location, job: String, uploads: Vector[Upload]): Unit =
    buckets(marker.bucket).write(marker.key, SuccessMarker.content(job, uploads))
}

private[commit] object TableCommit {

  private val log = LoggerFactory.getLogger(classOf[TableCommit])

  sealed private trait Standing

  /** The decision, if nothing comes before it: everything up to it is finished. */
  final private case class Latest(superseded: Seq[Long]) extends Standing
  private case object Void extends Standing
  private case object CarriedOut extends Standing

  private val FirstPause = 50L
  private val LongestPause = 1000L

  /** A store may forget an upload a moment before it shows the object; another process may be completing it. */
  private val Looks = 4
}

/** The job is decided, or may be: it must not be taken back, and need not be run again. */
final class CommitInterrupted private[commit] (job: String, table: Location, cause: Exception)
    extends IOException(
      s"The commit of job $job to $table was interrupted: $cause. If it was decided, its data appears " +
        "whole as soon as the next job writes to the table, or penstock lake sweep is run; if not, it never does. " +
        "Look before you run the job again",
      cause
    )

/** The job was decided, but its uploads were taken away before they could be completed. The table is as it was. */
final class CommitLost private[commit] (job: String, table: Location, missing: Vector[Upload])
    extends IOException(
      s"Job $job could not be committed to $table: ${missing.size} of its uploads were aborted by somebody else, " +
        s"such as that to ${missing.head.location}; the table is as it was. Look for a rule of the bucket that " +
        "removes unfinished uploads too early, then run the job again"
    )
