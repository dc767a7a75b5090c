package io.penstock.fs.commit

import java.io.IOException
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

/**
 * Jobs that commit to one table at once, in many orders, with deaths and lost replies. The model is one after another.
 */
class ConcurrentCommitsTest extends AnyFunSuite {

  import ConcurrentCommitsTest._

  test("jobs at once leave what some order of them leaves") {
    for (seed <- 0L until 300L) new Run(seed, deaths = false, lostReplies = false).check()
  }

  test("a job killed at any step has happened as a whole or not at all, once the next one has come") {
    for (seed <- 0L until 400L) new Run(seed, deaths = true, lostReplies = false).check()
  }

  test("a job whose requests take effect without a reply has happened as a whole or not at all") {
    for (seed <- 0L until 400L) new Run(seed, deaths = false, lostReplies = true).check()
  }

  test("deaths and lost replies together") {
    for (seed <- 1000L until 1400L) new Run(seed, deaths = true, lostReplies = true).check()
  }

  test("a job that sleeps at any step while all others commit leaves what some order of them leaves") {
    for (seed <- 2000L until 2400L) new Run(seed, deaths = false, lostReplies = false, sleeps = true).check()
  }

  test("a job that sleeps at any step while others die leaves what some order of them leaves") {
    for (seed <- 3000L until 3400L) new Run(seed, deaths = true, lostReplies = false, sleeps = true).check()
  }
}

private object ConcurrentCommitsTest {

  sealed trait Mode
  case object Append extends Mode
  case object Overwrite extends Mode
  case object Dynamic extends Mode

  private val Table = Location(MemoryStore.Name, "table/")

  final private case class Job(name: String, mode: Mode, files: Set[String]) {

    def after(table: Set[String]): Set[String] = mode match {
      case Append => table ++ files
      case Overwrite => files
      case Dynamic =>
        table.filterNot(file => files.exists(CommitRecord.parent(_) == CommitRecord.parent(file))) ++ files
    }

    def scopes(uploads: Vector[Upload]): Vector[Location] = mode match {
      case Append => Vector.empty
      case Overwrite => Vector(Table)
      case Dynamic => Replacing.partitions(uploads)
    }
  }

  sealed private trait Outcome
  private case object Committed extends Outcome
  private case object Failed extends Outcome
  private case object Unknown extends Outcome

  final private class Run(seed: Long, deaths: Boolean, lostReplies: Boolean, sleeps: Boolean = false) {

    private val random = new Random(seed)
    private val store = new MemoryStore

    private val jobs = (1 to 3).map { number =>
      val mode = Seq(Append, Overwrite, Dynamic)(random.nextInt(3))
      val files =
        (0 until 1 + random.nextInt(3)).map(_ => s"table/p=${random.nextInt(2)}/part-${random.nextInt(3)}-job$number")
      Job(s"job$number", mode, files.toSet)
    }
    private val initial = Set("table/p=0/old", "table/p=1/old")
    private val dies =
      jobs.map(job => job.name -> (if (deaths && random.nextBoolean()) 1 + random.nextInt(25) else -1)).toMap

    private val sleeper = if (sleeps) Some(jobs(random.nextInt(jobs.size)).name -> (1 + random.nextInt(12))) else None

    private val outcomes = new ConcurrentHashMap[String, Outcome]

    private def commit(job: Job, interleaving: Interleaving): Unit = {
      val replies = new Random(seed * 31 + job.name.hashCode)
      def loseReply(): Unit =
        if (lostReplies && replies.nextInt(12) == 0) throw new MemoryStore.ReplyLost
      val buckets = new Buckets(_ => store.bucket(_ => interleaving.step(job.name), _ => loseReply()))
      val uploads = job.files.toVector.sorted.map(store.upload)
      outcomes.put(job.name, Unknown)
      val outcome =
        try {
          new TableCommit(buckets, Table, new Parallel(1), patience = 0, sleep = _ => ())
            .commit(job.name, uploads, job.scopes(uploads), Some(Location(MemoryStore.Name, "table/_SUCCESS")))
          Committed
        } catch {
          case _: MemoryStore.Killed | _: CommitInterrupted => Unknown
          case _: IOException => Failed
        }
      outcomes.put(job.name, outcome)
    }

    def check(): Unit = {
      initial.foreach(key => store.objects += key -> Array[Byte](1))
      val interleaving = new Interleaving(
        seed,
        jobs.map(_.name),
        (name, step) => dies(name) == step,
        (name, step) => sleeper.contains(name -> step)
      )
      interleaving.run(name => commit(jobs.find(_.name == name).get, interleaving))
      val after =
        new TableCommit(new Buckets(_ => store.bucket()), Table, new Parallel(1), patience = 0, sleep = _ => ())
      after.rollForward()

      val visible = store.keys.filterNot(_.contains("/_"))
      val possible = (for {
        happened <- jobs.toSet.subsets()
        if jobs.forall(job =>
          outcomes.get(job.name) match {
            case Committed => happened(job)
            case Failed => !happened(job)
            case Unknown => true
          }
        )
        order <- happened.toVector.permutations
      } yield (order, order.foldLeft(initial)((table, job) => job.after(table)))).toVector
      val explained = possible.filter(_._2 == visible)
      def story = s"seed $seed: $jobs ${outcomes.asScala} dies $dies sleeps $sleeper\nleft $visible"
      assert(explained.nonEmpty, story)

      // What has happened has no upload left, in at least one of the orders that explain the table.
      val unfinished = store.pending.values.map(_.key).toSet
      assert(explained.exists(_._1.forall(_.files.forall(file => !unfinished(file)))), story + s"\nuploads $unfinished")
      val journal = store.keys.filter(_.contains(Journal.Directory))
      assert(journal.isEmpty || store.objects(journal.max).isEmpty, story + s"\njournal $journal")
    }

    private def assert(condition: Boolean, clue: => String): Unit =
      if (!condition) throw new AssertionError(clue)
  }
}
