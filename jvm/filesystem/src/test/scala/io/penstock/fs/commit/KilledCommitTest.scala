package io.penstock.fs.commit

import java.nio.file.AccessDeniedException
import java.util.concurrent.atomic.{AtomicBoolean, AtomicInteger}

import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.testing.Store

/** A driver that dies before any one of its requests, on a real store; then somebody else comes. */
class KilledCommitTest extends AnyFunSuite {

  import KilledCommitTest._

  private lazy val bucket = Store.newBucket()

  private val Old = Seq("p=1" -> "old", "p=2" -> "old")
  private val New = Seq("p=2" -> "new", "p=3" -> "new", "p=4" -> "new")

  /** Overwrites the table, dying before request number `lives`; whether it died. */
  private def overwrite(table: WrittenTable, lives: Int): Boolean = {
    val left = new AtomicInteger(lives)
    try {
      table.overwrite(table.newJob(), Seq("p=2", "p=3", "p=4"), "new", fs => new Mortal(new S3AObjectStore(fs), left))
      false
    } catch {
      case _: MemoryStore.Killed => true
      case e: CommitInterrupted if e.getCause.isInstanceOf[MemoryStore.Killed] => true
    }
  }

  private def killedEverywhere(name: String)(recover: WrittenTable => Seq[(String, String)]): Unit = {
    val outcomes = Iterator
      .from(0)
      .map { lives =>
        val table = new WrittenTable(bucket, s"$name-$lives", Store.conf())
        table.append(Seq("p=1", "p=2"), "old")
        val died = overwrite(table, lives)
        val added = recover(table)
        val left = table.contents.filterNot(added.contains)
        assert(left == Old || left == New, s"died before request $lives")
        // That a job has landed which another has finished is there for its driver until a later sweep.
        assert(table.remains.forall(_.endsWith(".outcome")), s"died before request $lives")
        table.sweep()
        assert(table.remains.isEmpty, s"died before request $lives")
        (died, left)
      }
      .takeWhile(_._1)
      .map(_._2)
      .toVector
    // Both sides of the decision were tried, and once it is taken it stays.
    assert(outcomes.contains(Old) && outcomes.contains(New))
    assert(outcomes == outcomes.filter(_ == Old) ++ outcomes.filter(_ == New))
  }

  test("killed at any step, after a sweep the table is old or new as a whole, and nothing is left") {
    killedEverywhere("swept") { table =>
      table.sweep()
      Nil
    }
  }

  test("killed at any step, the next job first finishes what was decided") {
    killedEverywhere("continued") { table =>
      table.append(Seq("p=9"), "next")
      val unfinished = table.contents
      // What was not decided is the sweep's; a job cannot know that it is not running.
      table.sweep()
      assert(table.contents == unfinished)
      Seq("p=9" -> "next")
    }
  }

  test("killed while finishing what another was killed in, and so on, until somebody lives long enough") {
    for (seed <- 1 to 6) {
      val table = new WrittenTable(bucket, s"again-$seed", Store.conf())
      table.append(Seq("p=1", "p=2"), "old")
      // Dies with the decision written: the fourth request is the look at the commit log that follows it.
      assert(overwrite(table, lives = 4))
      Iterator.range(0, 20).foreach { round =>
        val left = new AtomicInteger(1 + (seed * 7 + round * 3) % 14)
        val location = Location(bucket.name, s"again-$seed/")
        val mortal = new ObjectStores(name => new Mortal(table.buckets(name), left))
        try new TableCommit(mortal, location, new Parallel(1), patience = 0).rollForward()
        catch { case _: MemoryStore.Killed => None }
      }
      assert(table.contents == New)
      // Who dies with everything done may leave an old number.
      table.sweep()
      assert(table.remains.isEmpty)
    }
  }

  test("an error of the machine once the job is decided leaves it decided, also when the job is aborted then") {
    val table = new WrittenTable(bucket, "error", Store.conf())
    table.append(Seq("p=1", "p=2"), "old")
    val (id, left) = (table.newJob(), new AtomicInteger(1000))
    val output = table.job(id, open = fs => new Mortal(new S3AObjectStore(fs), left))
    output.replace(table.fs, table.path)
    val uploads = table.attempt(id, Seq("p=2", "p=3", "p=4"), "new").uploads
    left.set(4)
    intercept[CommitInterrupted](output.commit(uploads))
    left.set(1000)
    output.abort()
    table.append(Seq("p=9"), "next")
    assert(table.contents == New :+ ("p=9" -> "next"))
  }

  test("a job that is stopped while it waits for another one takes its uploads back") {
    for (stop <- Seq(new InterruptedException, new IllegalStateException("a defect"))) {
      val table = new WrittenTable(bucket, s"stopped-${stop.getClass.getSimpleName}", Store.conf())
      table.append(Seq("p=1"), "old")
      val id = table.newJob()
      val waits = new AtomicBoolean(true)
      val output = table.job(id, open = fs => new Stopped(new S3AObjectStore(fs), waits, stop))
      val uploads = table.attempt(id, Seq("p=2"), "new").uploads
      intercept[Exception](output.commit(uploads))
      waits.set(false)
      output.abort()
      assert(table.contents == Seq("p=1" -> "old") && table.remains.isEmpty)
    }
  }

  test("a sweep of a prefix keeps uploads where it may not look for their records") {
    val table = new WrittenTable(bucket, "hidden", Store.conf())
    table.append(Seq("p=1", "p=2"), "old")
    assert(overwrite(table, lives = 4))
    val hidden =
      new ObjectStores(name => new Hidden(new S3AObjectStore(ObjectStores.fileSystem(table.path, name, Store.conf()))))
    val found = new Sweep(hidden, new Parallel(4), cutoff = Long.MaxValue, dryRun = false)
      .run(Location(bucket.name, "hidden/p=3/"))
      .found
    assert(found.map(row => (row.kind, row.action)).toSet == Set("uploads" -> "kept"))
    table.sweep()
    assert(table.contents == New)
  }

  test("a sweep below a table's root finishes what the table has decided, and does not remove its uploads") {
    val table = new WrittenTable(bucket, "above", Store.conf())
    table.append(Seq("p=1", "p=2"), "old")
    assert(overwrite(table, lives = 4))
    def sweep(dryRun: Boolean) =
      new Sweep(table.buckets, new Parallel(4), cutoff = Long.MaxValue, dryRun)
        .run(Location(bucket.name, "above/p=3/"))
        .found
        .map(row => (row.kind, row.action))
    assert(sweep(dryRun = true) == Vector("commit" -> "would finish"))
    assert(sweep(dryRun = false) == Vector("commit" -> "finished"))
    assert(table.contents == New)
  }

  test("a dry run of the sweep tells what it would do and does none of it") {
    val table = new WrittenTable(bucket, "dry", Store.conf())
    table.append(Seq("p=1", "p=2"), "old")
    assert(overwrite(table, lives = 5))
    val before = bucket.list("dry/")
    val report = table.sweep(dryRun = true)
    assert(report.found.map(row => (row.kind, row.files, row.action)) == Vector(("commit", 3, "would finish")))
    assert(bucket.list("dry/") == before)
    assert(table.sweep().found.map(_.action) == Vector("finished"))
    assert(table.contents == New)
    assert(table.sweep().found.map(row => (row.kind, row.files, row.action)) == Vector(("journal", 1, "removed")))
    assert(table.sweep().found.isEmpty)
  }
}

private object KilledCommitTest {

  /** A store whose every request `pass` lets through, or not. */
  private class Passing(store: ObjectStore) extends ObjectStore {
    protected def pass[A](request: => A): A = request

    override def name: String = store.name
    override def list(prefix: String): Iterator[Listed] = pass(store.list(prefix))
    override def entityTag(key: String): Option[String] = pass(store.entityTag(key))
    override def read(key: String): Option[Array[Byte]] = pass(store.read(key))
    override def write(key: String, content: Array[Byte]): Unit = pass(store.write(key, content))
    override def create(key: String, content: Array[Byte]): Boolean = pass(store.create(key, content))
    override def delete(keys: Seq[String]): Unit = pass(store.delete(keys))
    override def complete(upload: Upload): Boolean = pass(store.complete(upload))
    override def abort(key: String, uploadId: String): Unit = pass(store.abort(key, uploadId))
    override def uploads(prefix: String): Iterator[PendingUpload] = pass(store.uploads(prefix))
    override def uploadedBytes(upload: PendingUpload): Long = pass(store.uploadedBytes(upload))
  }

  /** Fails while `waits`, when a job looks for others in the commit log. */
  final private class Stopped(store: ObjectStore, waits: AtomicBoolean, failure: Exception) extends Passing(store) {
    override def list(prefix: String): Iterator[Listed] =
      if (waits.get && prefix.contains(CommitLog.Directory)) throw failure else super.list(prefix)
  }

  /** Refuses to list commit logs, as a store does whose user may list other prefixes only. */
  final private class Hidden(store: ObjectStore) extends Passing(store) {
    override def list(prefix: String): Iterator[Listed] =
      if (prefix.contains(CommitLog.Directory)) throw new AccessDeniedException(prefix) else super.list(prefix)
  }

  /** Dies before the request that comes when none is left, and stays dead. */
  final private class Mortal(store: ObjectStore, left: AtomicInteger) extends Passing(store) {
    override protected def pass[A](request: => A): A =
      if (left.getAndDecrement() > 0) request else throw new MemoryStore.Killed
  }
}
