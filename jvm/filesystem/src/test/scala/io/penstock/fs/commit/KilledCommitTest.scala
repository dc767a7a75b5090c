package io.penstock.fs.commit

import java.util.concurrent.atomic.AtomicInteger

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
      table.overwrite(table.newJob(), Seq("p=2", "p=3", "p=4"), "new", fs => new Mortal(new S3ABucket(fs), left))
      false
    } catch { case _: MemoryStore.Killed => true }
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
      // Dies with the decision written: the fourth request is the look at the journal that follows it.
      assert(overwrite(table, lives = 4))
      Iterator.range(0, 20).foreach { round =>
        val left = new AtomicInteger(1 + (seed * 7 + round * 3) % 14)
        val location = Location(bucket.name, s"again-$seed/")
        val mortal = new Buckets(name => new Mortal(table.buckets(name), left))
        try new TableCommit(mortal, location, new Parallel(1), patience = 0).rollForward()
        catch { case _: MemoryStore.Killed => None }
      }
      assert(table.contents == New)
      // Who dies with everything done may leave an old number.
      table.sweep()
      assert(table.remains.isEmpty)
    }
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

  /** Dies before the request that comes when none is left, and stays dead. */
  final private class Mortal(store: Bucket, left: AtomicInteger) extends Bucket {

    private def alive[A](request: => A): A = if (left.getAndDecrement() > 0) request else throw new MemoryStore.Killed

    override def name: String = store.name
    override def list(prefix: String): Iterator[Listed] = alive(store.list(prefix))
    override def exists(key: String): Boolean = alive(store.exists(key))
    override def read(key: String): Option[Array[Byte]] = alive(store.read(key))
    override def write(key: String, content: Array[Byte]): Unit = alive(store.write(key, content))
    override def create(key: String, content: Array[Byte]): Boolean = alive(store.create(key, content))
    override def delete(keys: Seq[String]): Unit = alive(store.delete(keys))
    override def complete(upload: Upload): Boolean = alive(store.complete(upload))
    override def abort(key: String, uploadId: String): Unit = alive(store.abort(key, uploadId))
    override def uploads(prefix: String): Iterator[PendingUpload] = alive(store.uploads(prefix))
    override def uploadedBytes(upload: PendingUpload): Long = alive(store.uploadedBytes(upload))
  }
}
