package io.penstock.fs.commit

import java.io.IOException
import java.util.concurrent.{ConcurrentHashMap, ExecutorService, Executors, Semaphore}

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

/**
 * Jobs that commit to one table at once, in many orders, with deaths, pauses, lost replies, wrong clocks, other
 * attempts of tasks, helpers that finish what they find, and outsiders that delete files and abort uploads. The model
 * is one job after another.
 *
 * `-Dpenstock.commit.turns=3` tries every order of three turns of two jobs, 6,156 for each pair of kinds.
 */
class ConcurrentCommitsTest extends AnyFunSuite {

  import ConcurrentCommitsTest._

  private val turns = sys.props.get("penstock.commit.turns").fold(2)(_.toInt)

  private def check(seeds: Range, world: World): Unit =
    seeds.foreach(seed => new Run(seed.toLong, world, Interleaving.random(seed.toLong)).check())

  test("jobs at once leave what some order of them leaves") {
    check(0 until 300, World())
  }

  test("a job killed at any step has happened as a whole or not at all, once the next one has come") {
    check(0 until 400, World(deaths = true))
  }

  test("a job whose requests take effect without a reply has happened as a whole or not at all") {
    check(0 until 400, World(lostReplies = true))
  }

  test("deaths and lost replies together") {
    check(1000 until 1400, World(deaths = true, lostReplies = true))
  }

  test("a job that sleeps at any step while all others commit leaves what some order of them leaves") {
    check(2000 until 2400, World(sleeps = true))
  }

  test("a job that sleeps at any step while others die leaves what some order of them leaves") {
    check(3000 until 3400, World(deaths = true, sleeps = true))
  }

  test("a job whose upload is aborted, or whose file is deleted, by somebody else says whether it has landed") {
    check(4000 until 4400, World(outsiders = 1, helpers = 1))
  }

  test("so it does where it sleeps meanwhile, or who finishes its commit sleeps") {
    check(5000 until 5500, World(outsiders = 1, helpers = 2, sleeps = true))
  }

  test("so it does where others die, and replies are lost") {
    check(6000 until 6400, World(outsiders = 2, helpers = 1, sleeps = true, deaths = true, lostReplies = true))
  }

  test("a job whose records arrive when it has given them up has happened as a whole or not at all") {
    check(9000 until 9400, World(latePuts = true))
    check(9400 until 9800, World(latePuts = true, helpers = 1, sleeps = true, lostReplies = true))
  }

  test("jobs whose clocks are wrong leave what some order of them leaves, also where others die and sleep") {
    check(7000 until 7200, World(skewed = true, helpers = 1))
    check(7200 until 7500, World(skewed = true, helpers = 1, deaths = true, sleeps = true, lostReplies = true))
  }

  test("other attempts of tasks that begin, end and die at any step neither count nor take anything away") {
    check(8000 until 8200, World(attempts = 2))
    check(8200 until 8500, World(attempts = 2, helpers = 1, outsiders = 1, deaths = true, sleeps = true))
  }

  for (first <- Seq(Append, Overwrite, Dynamic); second <- Seq(Append, Overwrite, Dynamic))
    test(s"two jobs of two files each, ${first.name} and ${second.name}: all orders of up to $turns turns") {
      val jobs = Seq(
        Job("job1", first, Set("table/p=0/part-0-job1", "table/p=1/part-1-job1")),
        Job("job2", second, Set("table/p=0/part-0-job2", "table/p=1/part-1-job2"))
      )
      val lengths = (2 to turns).foldLeft((0 to MostSteps).map(Seq(_))) { (sofar, _) =>
        sofar.flatMap(before => (1 to MostSteps).map(before :+ _))
      }
      lengths.foreach(turn => new Run(0, World(jobs = Some(jobs)), Interleaving.turns(turn)).check())
    }

  test("a store that ignores the condition of a creation is refused before anything is written") {
    for (conditional <- Seq(true, false)) {
      val store = new MemoryStore(conditional)
      val commitLog = new CommitLog(store.bucket(), Location(MemoryStore.Name, "table/"))
      if (conditional) commitLog.requireConditions()
      else assert(intercept[IOException](commitLog.requireConditions()).getMessage.contains("If-None-Match"))
      assert(store.keys.isEmpty)
    }
  }

  test("a job that replaces what it has read is refused where another has committed since, and leaves the table") {
    val store = new MemoryStore
    val buckets = new ObjectStores(_ => store.bucket())
    val table = Location(MemoryStore.Name, "table/")
    def commit = new TableCommit(buckets, table, new Parallel(1), patience = 0, store.clock())
    def write(job: String, expected: Option[Long]): Unit =
      commit.commit(job, Vector(store.upload(s"table/part-0-$job")), Vector(table), None, expected)
    assert(commit.version() == 0)
    write("first", expected = Some(0))
    val read = commit.version()
    write("between", expected = None)
    intercept[TableChanged](write("rewriting", Some(read)))
    assert(store.keys.filter(_.contains("part-")) == Set("table/part-0-between"))
    write("again", Some(commit.version()))
    assert(store.keys.filter(_.contains("part-")) == Set("table/part-0-again"))
  }
}

private object ConcurrentCommitsTest {

  /** A commit of two files takes fewer. */
  private val MostSteps = 18

  sealed abstract class Mode(val name: String)
  case object Append extends Mode("append")
  case object Overwrite extends Mode("overwrite")
  case object Dynamic extends Mode("dynamic overwrite")

  /**
   * @param latePuts
   *   whether a creation may fail and take effect at any later step
   * @param outsiders
   *   that delete a file of the table or abort an upload, at any step
   * @param helpers
   *   that finish whatever is unfinished when they come
   * @param attempts
   *   of tasks whose other attempt counts
   * @param skewed
   *   whether clocks are wrong by up to an hour, so that some leave an unfinished commit to its driver and others do
   *   not
   * @param jobs
   *   drawn from the seed where there are none
   */
  final case class World(
      deaths: Boolean = false,
      lostReplies: Boolean = false,
      latePuts: Boolean = false,
      sleeps: Boolean = false,
      outsiders: Int = 0,
      helpers: Int = 0,
      attempts: Int = 0,
      skewed: Boolean = false,
      jobs: Option[Seq[Job]] = None
  )

  private val Patience = 10000L
  private val Hour = 3600000L

  private val Table = Location(MemoryStore.Name, "table/")

  final case class Job(name: String, mode: Mode, files: Set[String]) {

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

  final private class Run(seed: Long, world: World, pick: Vector[String] => String) {
    import world._

    private val random = new Random(seed)
    private val store = new MemoryStore

    private val jobs = world.jobs.getOrElse((1 to 3).map { number =>
      val mode = Seq(Append, Overwrite, Dynamic)(random.nextInt(3))
      val files =
        (0 until 1 + random.nextInt(3)).map(_ => s"table/p=${random.nextInt(2)}/part-${random.nextInt(3)}-job$number")
      Job(s"job$number", mode, files.toSet)
    })
    private val strangers = (1 to helpers).map(n => s"helper$n") ++ (1 to outsiders).map(n => s"outsider$n") ++
      (1 to attempts).map(n => s"attempt$n") ++ Option.when(latePuts)("network")
    private val initial = Set("table/p=0/old", "table/p=1/old")
    private val dies =
      jobs.map(job => job.name -> (if (deaths && random.nextBoolean()) 1 + random.nextInt(25) else -1)).toMap

    private val sleeper = Option.when(sleeps) {
      val mayHelp = jobs.map(_.name) ++ strangers.take(helpers)
      mayHelp(random.nextInt(mayHelp.size)) -> (1 + random.nextInt(16))
    }
    private val dropped = ConcurrentHashMap.newKeySet[String]()

    private val outcomes = new ConcurrentHashMap[String, Outcome]

    /** The table as a process sees it. */
    private def table(process: String, buckets: ObjectStores): TableCommit = {
      val wrong = new Random(seed * 17 + process.hashCode)
      // Nobody waits for another's commit where clocks are right, but finishes it at once: the most that goes on together.
      if (skewed) new TableCommit(buckets, Table, new Parallel(1), Patience, store.clock(wrong.between(-Hour, Hour)))
      else new TableCommit(buckets, Table, new Parallel(1), patience = -1, store.clock())
    }

    private def commit(job: Job, interleaving: Interleaving): Unit = {
      val replies = new Random(seed * 31 + job.name.hashCode)
      def loseReply(): Unit =
        if (lostReplies && replies.nextInt(12) == 0) throw new MemoryStore.ReplyLost
      def isLate = latePuts && replies.nextInt(4) == 0
      val buckets = new ObjectStores(_ => store.bucket(_ => interleaving.step(job.name), _ => loseReply(), _ => isLate))
      val uploads = job.files.toVector.sorted.map(store.upload)
      outcomes.put(job.name, Unknown)
      val outcome =
        try {
          table(job.name, buckets)
            .commit(job.name, uploads, job.scopes(uploads), Some(Location(MemoryStore.Name, "table/_SUCCESS")))
          Committed
        } catch {
          case _: MemoryStore.Killed | _: CommitInterrupted => Unknown
          case _: IOException => Failed
        }
      outcomes.put(job.name, outcome)
    }

    private def help(name: String, interleaving: Interleaving): Unit = {
      val buckets = new ObjectStores(_ => store.bucket(_ => interleaving.step(name)))
      (1 to 3).foreach(_ => table(name, buckets).rollForward())
    }

    /** A rule of the bucket, another engine, a hand. */
    private def meddle(name: String, interleaving: Interleaving): Unit = {
      (0 to new Random(seed + name.hashCode).nextInt(20)).foreach(_ => interleaving.step(name))
      val files = store.keys.filterNot(_.contains("/_")).toVector.sorted
      val uploads = store.synchronized(store.pending.values.toVector).sortBy(_.id)
      if (uploads.nonEmpty && random.nextBoolean()) store.abort(uploads(random.nextInt(uploads.size)))
      else if (files.nonEmpty) {
        val file = files(random.nextInt(files.size))
        dropped.add(file)
        store.drop(file)
      }
    }

    /** Another attempt at a job's first file: it begins at any step, and takes itself away, or dies before. */
    private def attempt(name: String, interleaving: Interleaving): Unit = {
      val when = new Random(seed + name.hashCode)
      val job = jobs(when.nextInt(jobs.size))
      def pause(): Unit = (0 to when.nextInt(20)).foreach(_ => interleaving.step(name))
      pause()
      val upload = store.upload(s"${job.files.min}-$name")
      pause()
      if (when.nextBoolean()) store.bucket(_ => interleaving.step(name)).abort(upload.key, upload.id)
    }

    /** Brings what is under way, now and then. */
    private def bring(name: String, interleaving: Interleaving): Unit = {
      val when = new Random(seed + name.hashCode)
      for (_ <- 1 to 5) {
        (0 to when.nextInt(10)).foreach(_ => interleaving.step(name))
        store.arrive()
      }
    }

    private def act(name: String, interleaving: Interleaving): Unit = jobs.find(_.name == name) match {
      case Some(job) => commit(job, interleaving)
      case None if name.startsWith("helper") => help(name, interleaving)
      case None if name == "network" => bring(name, interleaving)
      case None if name.startsWith("attempt") => attempt(name, interleaving)
      case None => meddle(name, interleaving)
    }

    def check(): Unit = {
      initial.foreach(key => store.objects += key -> Array[Byte](1))
      val interleaving = new Interleaving(
        pick,
        jobs.map(_.name) ++ strangers,
        (name, step) => dies.get(name).contains(step),
        (name, step) => sleeper.contains(name -> step)
      )
      interleaving.run(act(_, interleaving))
      store.arrive()
      new TableCommit(new ObjectStores(_ => store.bucket()), Table, new Parallel(1), patience = 0, store.clock())
        .rollForward()

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
      val explained = possible.filter(_._2 -- dropped.asScala == visible -- dropped.asScala)
      def story =
        s"seed $seed: $jobs ${outcomes.asScala} dies $dies sleeps $sleeper dropped $dropped\nleft $visible"
      assert(explained.nonEmpty, story)

      // What has happened has no upload left, in at least one of the orders that explain the table.
      val unfinished = store.pending.values.map(_.key).toSet
      assert(explained.exists(_._1.forall(_.files.forall(file => !unfinished(file)))), story + s"\nuploads $unfinished")
      val commitLog = store.keys.filter(key => CommitLog.tableOf(MemoryStore.Name, key).isDefined)
      assert(commitLog.isEmpty || store.objects(commitLog.max).isEmpty, story + s"\ncommit log $commitLog")
    }

    private def assert(condition: Boolean, clue: => String): Unit =
      if (!condition) throw new AssertionError(clue)
  }
}

/**
 * Lets processes take steps one at a time, in an order that can be had again. A process asks before each step and waits
 * for its turn; it may be killed instead.
 *
 * @param pick
 *   whose turn it is of those that could go on, in the order of their names
 * @param sleep
 *   whether a process sleeps after so many steps until all others have ended or sleep, too. Turns drawn at random never
 *   hold a process back for long, so what goes wrong after a long pause needs one on purpose.
 */
final class Interleaving(
    pick: Vector[String] => String,
    names: Seq[String],
    kill: (String, Int) => Boolean,
    sleep: (String, Int) => Boolean = (_, _) => false
) {

  private val steps = scala.collection.mutable.Map.empty[String, Int].withDefaultValue(0)
  private var waiting = Set.empty[String]
  private var running = names.toSet
  private var dead = Set.empty[String]
  private var underWay = false
  // One each, so that a turn wakes the thread it is for and no other.
  private val turns = names.map(_ -> new Semaphore(0)).toMap

  /** Returns when it is the process's turn. */
  def step(name: String): Unit = {
    synchronized {
      waiting += name
      choose()
    }
    turns(name).acquire()
    synchronized {
      underWay = false
      waiting -= name
      steps(name) += 1
      if (kill(name, steps(name))) dead += name
      if (dead(name)) throw new MemoryStore.Killed
    }
  }

  def ended(name: String): Unit = synchronized {
    running -= name
    choose()
  }

  private def choose(): Unit =
    if (!underWay && waiting.nonEmpty && waiting == running) {
      val awake = waiting.filterNot(name => sleep(name, steps(name)))
      val candidates = if (awake.isEmpty) waiting else awake
      underWay = true
      turns(pick(candidates.toVector.sorted)).release()
    }

  /** How many steps a process has taken. */
  def taken(name: String): Int = synchronized(steps(name))

  /** Runs one process for each name to its end. */
  def run(process: String => Unit): Unit =
    names
      .map { name =>
        val life: Runnable = () =>
          try process(name)
          finally ended(name)
        Interleaving.threads.submit(life)
      }
      .foreach(_.get())
}

object Interleaving {

  // Kept from one interleaving to the next: a test has thousands of them, of a few steps each.
  private val threads: ExecutorService = Executors.newCachedThreadPool { task =>
    val thread = new Thread(task, "interleaved")
    thread.setDaemon(true)
    thread
  }

  /** Any process as likely as another. */
  def random(seed: Long): Vector[String] => String = {
    val random = new Random(seed)
    candidates => candidates(random.nextInt(candidates.size))
  }

  /**
   * The first process goes on until it has taken as many steps as the first number says, then another one for as many
   * as the second says, and so on in turns, and at last each to its end.
   */
  def turns(lengths: Seq[Int]): Vector[String] => String = {
    var left = lengths.toList
    var current = Option.empty[String]
    candidates => {
      left match {
        case 0 :: rest =>
          left = rest
          current = candidates.find(!current.contains(_)).orElse(current)
        case _ => ()
      }
      val next = current.filter(candidates.contains).getOrElse(candidates.head)
      current = Some(next)
      left = left match {
        case steps :: rest => (steps - 1) :: rest
        case Nil => Nil
      }
      next
    }
  }
}
