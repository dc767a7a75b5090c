package io.penstock.fs.commit

import java.io.IOException

import scala.annotation.tailrec

import org.slf4j.LoggerFactory

import io.penstock.fs.metrics.Counters

/**
 * Commits jobs to one table: decides, then carries out.
 *
 * The decision is one object in the table's [[CommitLog]]. Before it exists nothing of a job is visible, and whoever
 * finds what is left of it may remove that. Once it exists the job is carried out to its end: by its driver, or after
 * the driver's death by the next job that commits to the table, or by the sweep. Each step can be repeated, also by two
 * processes at once and after any pause: an upload that is no longer there but whose file is was completed by somebody,
 * and deletes name objects whose names are never used again. Names that do not say the job (those of RDDs' files) may
 * be another job's: such a file is recognised by its entity tag.
 *
 * It ends in one of two ways, [[Outcome.Landed]] or [[Outcome.Lost]], which those who carry it out agree on before
 * anything is deleted. A proposal that the job is losing counts while its record is unfinished: seen unfinished after
 * the proposal, it cannot have landed before, and cannot land after.
 *
 * @param patience
 *   milliseconds for which another job's commit is left to its driver before this one finishes it
 */
final private[commit] class TableCommit(
    buckets: ObjectStores,
    table: Location,
    parallel: Parallel,
    patience: Long,
    clock: Clock = Clock.Machine
) {

  import TableCommit._

  private val commitLog = new CommitLog(buckets(table.bucket), table)

  /**
   * Makes the uploads the table's files in place of everything in `scopes`. Returns when the job has landed.
   *
   * An `IOException` says that nothing has happened and nothing will; a [[CommitLost]] that the job was decided and
   * taken back, for good; a [[CommitInterrupted]] that it is decided, or may be, and that somebody else will carry it
   * out.
   *
   * @param expected
   *   the [[version]] that this job has read: a [[TableChanged]] is thrown where another job has committed since
   */
  def commit(
      job: String,
      uploads: Vector[Upload],
      scopes: Vector[Location],
      marker: Option[Location],
      expected: Option[Long] = None
  ): Unit =
    decide(job, uploads, scopes, marker, expected) match {
      case Some((generation, record, superseded)) =>
        knowing(record)(carryOut(generation, record, superseded, own = true))
      case None => ()
    }

  /**
   * The number of the table's latest commit, 0 where there was none. It is finished: one that its driver left behind is
   * carried out first.
   */
  def version(): Long = settled()

  /**
   * What fails once a record is there, whatever it is: interrupted threads of stopped streams throw no IOException, and
   * a machine without room for another thread throws an Error.
   */
  private def knowing[A](record: CommitRecord)(work: => A): A =
    try work
    catch {
      case e: CommitLost => throw e
      case e: Throwable => throw new CommitInterrupted(record.job, table, e)
    }

  /** Finishes what a driver left behind, if anything. Returns the record it finished. */
  def rollForward(): Option[CommitRecord] = {
    val entries = commitLog.entries()
    entries.lastOption.filterNot(_.finished).flatMap(latest => finishFor(latest, entries))
  }

  /** None where there is nothing to decide, or where somebody else has carried the decision out already. */
  @tailrec
  private def decide(
      job: String,
      uploads: Vector[Upload],
      scopes: Vector[Location],
      marker: Option[Location],
      expected: Option[Long]
  ): Option[(Long, CommitRecord, Seq[Long])] = {
    val latest = settled()
    if (expected.exists(_ != latest)) throw new TableChanged(job, table)
    requirePending(job, uploads)
    val generation = latest + 1
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
        CommitRecord(CommitRecord.Version, job, table, uploads, replaced, marker, clock.now)
      if (!append(generation, record)) decide(job, uploads, scopes, marker, expected)
      else
        knowing(record)(standing(generation, record)) match {
          case Void => decide(job, uploads, scopes, marker, expected)
          case Latest(superseded) => Some((generation, record, superseded))
          case CarriedOut => None
        }
    }
  }

  /** What has become of a record of ours that we saw in the commit log. Throws a [[CommitLost]] where it was undone. */
  private def standing(generation: Long, record: CommitRecord): Standing = {
    val entries = commitLog.entries()
    def withdrawn(): Standing = {
      commitLog.withdraw(generation)
      Void
    }
    if (entries.lastOption.exists(_.generation == generation)) Latest(entries.map(_.generation).init)
    // We slept between looking and creating, and created what was there before and is superseded: a later one comes only
    // after this one is finished, which ours is not.
    else if (commitLog.holds(generation, record)) withdrawn()
    else
      commitLog.outcome(record.job) match {
        // As before, and somebody who finished what was there before slept, too, and has finished ours instead.
        case None if record.uploads.exists(isPending) => withdrawn()
        case _ =>
          requireLanded(record)
          CarriedOut
      }
  }

  /**
   * Whatever the reply, afterwards it is known whether the record is there, or the failure says that it is not known.
   * An `IOException` of another kind says that the job is lost, even if its record comes after all.
   */
  private def append(generation: Long, record: CommitRecord): Boolean =
    try commitLog.append(generation, record)
    catch {
      case failure: IOException =>
        if (!arrived(generation, record, failure)) throw failure
        true
      case failure: Throwable => throw new CommitInterrupted(record.job, table, failure)
    }

  /**
   * Whether the record is there after a creation that failed. That it is not there yet proves nothing, since the
   * request may still be on its way: the job is lost only once that is agreed.
   */
  private def arrived(generation: Long, record: CommitRecord, failure: IOException): Boolean =
    try
      commitLog.holds(generation, record) || (commitLog.agree(record.job, Outcome.Lost) match {
        case Some(Outcome.Lost) => false
        // Somebody else has seen the record, and carries it out.
        case Some(_) => true
        case None => throw new CommitInterrupted(record.job, table, failure)
      })
    catch {
      case interrupted: CommitInterrupted => throw interrupted
      case unknown: Throwable =>
        failure.addSuppressed(unknown)
        throw new CommitInterrupted(record.job, table, failure)
    }

  /**
   * Throws an `IOException` where an upload is gone whose name does not say whose it is: another job of the same names
   * has landed and aborted it, and the file that is there is that job's.
   */
  private def requirePending(job: String, uploads: Vector[Upload]): Unit = {
    val unnamed = uploads.filterNot(upload => Leftovers.belongsTo(job, upload.key))
    if (unnamed.nonEmpty) {
      val listed = CommitRecord
        .places(table, unnamed.map(_.location))
        .flatMap(place => buckets(place.bucket).uploads(place.key).map(_.id))
        .toSet
      // MinIO lists uploads by their whole key only. A helper may have completed ours for a record that was void.
      val gone = parallel.filter(unnamed.filterNot(upload => listed(upload.id)))(upload =>
        !isPending(upload) && !isMadeOf(upload)
      )
      for (upload <- gone.headOption)
        throw new IOException(
          s"Job $job was not committed to $table: ${gone.size} of its ${uploads.size} uploads, such as that to " +
            s"${upload.location}, were aborted meanwhile. Another job has written files of the same names, or a rule of " +
            "the bucket removes unfinished uploads too early; the table is as it was"
        )
    }
  }

  /** Whether the file is known to be this upload's. */
  private def isMadeOf(upload: Upload): Boolean =
    buckets(upload.bucket).entityTag(upload.key).flatMap(upload.makes).contains(true)

  private def isPending(upload: Upload): Boolean = buckets(upload.bucket).uploads(upload.key).exists(_.id == upload.id)

  /** The latest generation, finished: by its driver if that makes it in time, or else by us. */
  private def settled(): Long = {
    val deadline = clock.elapsed + patience
    @tailrec
    def wait(pause: Long): Long = {
      val entries = commitLog.entries()
      entries.lastOption match {
        case None => 0
        case Some(latest) if latest.finished => latest.generation
        case Some(latest) =>
          // Only to spare requests: two may carry out one record. So it does not matter that clocks differ.
          val abandoned = clock.now - latest.modified > patience || clock.elapsed > deadline
          if (abandoned) finishFor(latest, entries) else clock.sleep(pause)
          wait(math.min(pause * 2, LongestPause))
      }
    }
    wait(FirstPause)
  }

  private def finishFor(latest: CommitLog.Entry, entries: Vector[CommitLog.Entry]): Option[CommitRecord] =
    commitLog.read(latest.generation).map { record =>
      log.warn(s"Finishing the commit of job ${record.job} to $table, which its driver left behind")
      Counters.CommitsRolledForward.increment()
      try carryOut(latest.generation, record, entries.map(_.generation).filter(_ < latest.generation), own = false)
      catch { case lost: CommitLost => log.warn(lost.getMessage) }
      record
    }

  /**
   * Returns when the job has landed. Throws a [[CommitLost]] where it was undone, by whomever.
   *
   * @param own
   *   whether this is the job's own driver, which must know
   */
  private def carryOut(generation: Long, record: CommitRecord, superseded: Seq[Long], own: Boolean): Unit = {
    def finished(): Unit = if (own) requireLanded(record)
    // Nobody should see the files of a job that was reported as failed, not even for a moment.
    if (!own && commitLog.outcome(record.job).contains(Outcome.Lost) && commitLog.holds(generation, record))
      undo(generation, record, superseded, record.uploads.map(_ -> Presence.Found))
    val found = parallel.map(record.uploads)(upload => upload -> presence(record.job, upload))
    val missing = found.collect { case (upload, Presence.Missing) => upload }
    // A file that was here may have been replaced by a later job: then somebody has carried out this record.
    if (missing.nonEmpty && !commitLog.holds(generation, record)) finished()
    else
      agree(record, missing) match {
        case Some(Outcome.Landed) =>
          if (missing.nonEmpty) {
            log.warn(
              s"${missing.size} files of job ${record.job} were deleted from $table while it was being committed"
            )
            tidy(record)
          }
          replace(record)
          commitLog.finish(generation, superseded, Option.when(own)(record.job))
          Counters.FilesCommitted.add(record.uploads.size.toLong)
        // We may have slept, and proposed it after the record was finished and everything about it forgotten.
        case Some(Outcome.Losing) if !commitLog.holds(generation, record) =>
          commitLog.withdraw(record.job)
          finished()
        case Some(_) => undo(generation, record, superseded, found)
        case None => finished()
      }
  }

  /** Where all files are there, nothing else that the job has begun to upload will be needed. */
  private def agree(record: CommitRecord, missing: Seq[Upload]): Option[Outcome] =
    if (missing.nonEmpty) commitLog.agree(record.job, Outcome.Losing)
    else {
      val steps = Seq(() => commitLog.agree(record.job, Outcome.Landed), () => { tidy(record); None })
      parallel.map(steps)(_()).head
    }

  private def tidy(record: CommitRecord): Unit =
    Leftovers.abort(buckets, parallel, record.job, record.places, record.uploads.iterator.map(_.location).toSet)

  private def replace(record: CommitRecord): Unit = {
    for ((bucket, old) <- record.replaced.groupBy(_.bucket)) buckets(bucket).delete(old.map(_.key))
    record.marker.foreach(writeMarker(_, record.job, record.uploads))
  }

  /** Of a record that somebody else has finished. Throws an `IOException` where nobody knows any more. */
  private def requireLanded(record: CommitRecord): Unit = commitLog.outcome(record.job) match {
    case Some(Outcome.Landed) => commitLog.forget(record.job)
    case Some(Outcome.Lost) => throw new CommitLost(record, table, None)
    case _ => throw new IOException("somebody else has finished it, and how is not recorded any more")
  }

  /**
   * Completes the upload, or finds that somebody has. A file whose name says the job is the job's; another is by its
   * entity tag, since a job of the same names may have written it. Where the store's tags do not tell, it counts.
   */
  private def presence(job: String, upload: Upload): Presence = {
    val bucket = buckets(upload.bucket)
    val isNamed = Leftovers.belongsTo(job, upload.key)
    def isThere = Iterator.range(0, Looks).exists { look =>
      if (look > 0) clock.sleep(100L << look)
      bucket.entityTag(upload.key).exists(tag => isNamed || upload.makes(tag).getOrElse(true))
    }
    if (bucket.complete(upload)) Presence.Completed else if (isThere) Presence.Found else Presence.Missing
  }

  /**
   * Somebody has aborted uploads of a decided job (a rule of the bucket, a hand), and all who carry it out agree. No
   * old file has been deleted: that comes after the agreement that it has landed.
   */
  private def undo(
      generation: Long,
      record: CommitRecord,
      superseded: Seq[Long],
      found: Seq[(Upload, Presence)]
  ): Nothing = {
    commitLog.confirmLost(record.job)
    // We may have slept, and others have undone the job, and a later one has written files of the same names.
    val isUnfinished = commitLog.holds(generation, record)
    def isOurs(upload: Upload, presence: Presence) = Leftovers.belongsTo(record.job, upload.key) ||
      buckets(upload.bucket).entityTag(upload.key).exists { tag =>
        upload.makes(tag).getOrElse(isUnfinished && presence == Presence.Completed)
      }
    val files = parallel.filter(found) { case (upload, presence) => isOurs(upload, presence) }.map(_._1)
    for ((bucket, ours) <- files.groupBy(_.bucket)) buckets(bucket).delete(ours.map(_.key))
    tidy(record)
    commitLog.finish(generation, superseded, own = None)
    throw new CommitLost(record, table, found.collectFirst { case (upload, Presence.Missing) => upload })
  }

  private def writeMarker(marker: Location, job: String, uploads: Vector[Upload]): Unit =
    buckets(marker.bucket).write(marker.key, SuccessMarker.content(job, uploads))
}

private[commit] object TableCommit {

  private val log = LoggerFactory.getLogger(classOf[TableCommit])

  /** What has become of an upload whose record is in the commit log. */
  sealed private trait Presence

  private object Presence {

    /** This process has completed it, so the file is the job's. */
    case object Completed extends Presence

    /** There is a file that may be the job's: somebody else has completed it. */
    case object Found extends Presence
    case object Missing extends Presence
  }

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

/** The time as a process sees it, in milliseconds. */
private[commit] trait Clock {

  /** Since 1970, by a clock that may be wrong. */
  def now: Long

  /** Since some moment; it never goes back. */
  def elapsed: Long

  def sleep(pause: Long): Unit
}

private[commit] object Clock {
  object Machine extends Clock {
    override def now: Long = System.currentTimeMillis
    override def elapsed: Long = System.nanoTime / 1000000
    override def sleep(pause: Long): Unit = Thread.sleep(pause)
  }
}

/** The job is decided, or may be: it must not be taken back, and need not be run again. */
final class CommitInterrupted private[commit] (job: String, table: Location, cause: Throwable)
    extends IOException(
      s"The commit of job $job to $table was interrupted: $cause. If it was decided, its data appears " +
        "whole as soon as the next job writes to the table, or penstock lake sweep is run; if not, it never does. " +
        "Look before you run the job again",
      cause
    )

/** The job was decided, but its uploads were taken away before they could be completed. The table is as it was. */
final class CommitLost private[commit] (record: CommitRecord, table: Location, missing: Option[Upload])
    extends IOException(
      s"Job ${record.job} could not be committed to $table: some of its ${record.uploads.size} uploads were aborted by " +
        s"somebody else${missing.fold("")(upload => s", such as that to ${upload.location}")}; the table is as it was. " +
        "Look for another job that wrote the same files, or a rule of the bucket that removes unfinished uploads too " +
        "early; then run the job again"
    )

/**
 * The job replaces what it has read of the table, which has other rows by now. The table is as the other job left it.
 */
final class TableChanged private[commit] (job: String, table: Location)
    extends IOException(
      s"Job $job was not committed to $table: another job has committed to it since this one read it, and its rows " +
        "would be lost. Run it again when nothing else writes to the table"
    )

/** What attempts of a job that did not make it into its commit have left: uploads that nobody will complete. */
private[commit] object Leftovers {

  /**
   * Aborts every upload of the job below these places. Spark SQL puts the job's id into each file's name; of other jobs
   * it is known which files they write.
   */
  def abort(
      buckets: ObjectStores,
      parallel: Parallel,
      job: String,
      places: Seq[Location],
      files: Set[Location]
  ): Unit = {
    val found = places.flatMap { place =>
      val bucket = buckets(place.bucket)
      bucket
        .uploads(place.key)
        .filter(upload => belongsTo(job, upload.key) || files(Location(place.bucket, upload.key)))
        .map(bucket -> _)
    }
    parallel.map(found) { case (bucket, upload) => bucket.abort(upload.key, upload.id) }: Unit
  }

  def belongsTo(job: String, key: String): Boolean = key.substring(key.lastIndexOf('/') + 1).contains(job)
}
