package io.penstock.fs.commit

import java.io.IOException
import java.net.{InetSocketAddress, URI}
import java.util.concurrent.atomic.{AtomicBoolean, AtomicInteger}
import java.util.concurrent.{ConcurrentHashMap, CountDownLatch}

import scala.jdk.CollectionConverters._

import org.apache.spark.internal.io.FileNameSpec
import org.scalatest.BeforeAndAfterAll
import org.scalatest.concurrent.Eventually._
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.SpanSugar._

import io.penstock.faults.{Fault, FaultyGateway}
import io.penstock.fs.testing.Store

/** Commits on a real store: which requests, and what happens when one of them fails. */
class StoreCommitTest extends AnyFunSuite with BeforeAndAfterAll {

  private lazy val gateway = new FaultyGateway(new InetSocketAddress(Store.endpoint.getHost, Store.endpoint.getPort))
  private lazy val bucket = Store.newBucket()
  private lazy val other = Store.newBucket()

  // A failing request has used up the SDK's tries and is S3A's to send again, which is what is tested here.
  private lazy val conf = {
    val conf = Store.conf(URI.create(gateway.endpoint))
    conf.set("fs.s3a.attempts.maximum", "1")
    conf
  }

  private def table(name: String) = new WrittenTable(bucket, name, conf)

  /** The requests by kind: one that is sent again over a connection that broke is one. */
  private def requestsOf(work: => Unit): Map[String, Int] = {
    gateway.clear()
    work
    gateway.requests
      .distinctBy(_.headers("amz-sdk-invocation-id"))
      .groupBy { request =>
        val listing = request.query.contains("list-type") || request.query.startsWith("uploads")
        if (request.method == "GET" && listing) "LIST" else request.method
      }
      .map { case (kind, requests) => kind -> requests.size }
  }

  override def afterAll(): Unit = gateway.close()

  for (files <- Seq(1, 7))
    test(s"an append of $files files costs $files completions and eight other requests, and copies nothing") {
      val appended = table(s"append-$files")
      appended.append(Seq("before"), "before")
      val id = appended.newJob()
      val uploads = appended.attempt(id, (1 to files).map(n => s"p=$n"), "new").uploads
      val requests = requestsOf(appended.job(id).commit(uploads))
      // The commit log before and after the decision, and uploads nobody accepted; decision, outcome, marker, decision
      // emptied; what is needless then is deleted by one.
      assert(requests == Map("POST" -> (files + 1), "LIST" -> 3, "PUT" -> 4))
      assert(!gateway.requests.exists(_.headers.contains("x-amz-copy-source")))
      assert(appended.contents.size == files + 1)
      assert(appended.remains.isEmpty)
    }

  test("an overwrite adds one listing and one request that deletes all old files") {
    val replaced = table("overwrite")
    replaced.append((1 to 20).map(n => s"p=$n"), "old")
    val id = replaced.newJob()
    val output = replaced.job(id)
    output.replace(
      replaced.fs,
      replaced.path
    )
    val uploads = replaced.attempt(id, Seq("p=1", "p=2", "p=3"), "new").uploads
    val requests = requestsOf(output.commit(uploads))
    assert(requests == Map("POST" -> (3 + 1 + 1), "LIST" -> 4, "PUT" -> 4))
    assert(replaced.contents == Seq("p=1" -> "new", "p=2" -> "new", "p=3" -> "new"))
    assert(replaced.remains.isEmpty)
  }

  test("writing a file leaves nothing on the store but its upload") {
    val written = table("written")
    val requests = requestsOf(written.attempt(written.newJob(), Seq("p=1"), "new"))
    assert(requests == Map("POST" -> 1, "PUT" -> 1))
    assert(bucket.list("written/").isEmpty)
    written.sweep()
  }

  test("of two attempts of a task the accepted one counts, and the other leaves nothing, even if it was lost") {
    val attempted = table("attempts")
    val id = attempted.newJob()
    val lost = attempted.attempt(id, Seq("p=1", "p=2"), "lost", attempt = 0)
    val accepted = attempted.attempt(id, Seq("p=1"), "accepted", attempt = 1)
    assert(lost.uploads.head.key != accepted.uploads.head.key)
    attempted.job(id).commit(accepted.uploads)
    assert(attempted.contents == Seq("p=1" -> "accepted"))
    assert(attempted.remains.isEmpty)
  }

  test("an attempt that is aborted takes its uploads with it") {
    val aborted = table("aborted")
    val attempt = aborted.attempt(aborted.newJob(), Seq("p=1", "p=2"), "x")
    attempt.abort()
    assert(aborted.remains.isEmpty)
    assert(attempt.uploads.isEmpty)
  }

  test("an attempt that is interrupted while an upload begins takes that with it, and stays interrupted") {
    val interrupted = table("interrupted-task")
    val output = interrupted.task(interrupted.newJob())
    interrupted.write(output, "p=1", "whole")
    gateway.clear()
    val answered = new CountDownLatch(1)
    gateway.inject(Fault.Held(answered))(request => request.method == "POST" && request.query.startsWith("uploads"))
    @volatile var left = Option.empty[(Boolean, Seq[String])]
    val writer = new Thread(() => {
      try interrupted.write(output, "p=2", "never")
      catch { case _: IOException => Thread.currentThread.interrupt() }
      output.abort()
      left = Some((Thread.interrupted(), interrupted.remains))
    })
    writer.start()
    try {
      eventually(timeout(30.seconds))(assert(bucket.pendingUploads().exists(_.contains("p=2"))))
      writer.interrupt()
    } finally answered.countDown()
    writer.join(60000)
    gateway.heal()
    assert(left.contains((true, Nil)))
  }

  test("a job that is aborted leaves the old data and nothing else, also called twice") {
    val failed = table("failed")
    failed.append(Seq("p=1"), "old")
    val id = failed.newJob()
    val output = failed.job(id)
    output.replace(failed.fs, failed.path)
    failed.attempt(id, Seq("p=1", "p=2"), "new")
    output.abort()
    output.abort()
    assert(failed.contents == Seq("p=1" -> "old"))
    assert(failed.remains.isEmpty)
  }

  test("a partition in another bucket is part of the same decision") {
    val table = new WrittenTable(bucket, "spread", conf)
    val elsewhere = new WrittenTable(other, "partition", conf)
    elsewhere.append(Seq("p=2"), "old")
    val id = table.newJob()
    val here = table.attempt(id, Seq("p=1"), "new", partition = 0)
    val there = elsewhere.attempt(id, Seq("p=2"), "new", partition = 1)
    elsewhere.attempt(id, Seq("p=2"), "lost", partition = 2)
    table.job(id, dynamic = true).commit(here.uploads ++ there.uploads)
    assert(table.contents ++ elsewhere.contents == Seq("p=1" -> "new", "p=2" -> "new"))
    assert(table.remains ++ elsewhere.remains.filterNot(_.contains(CommitLog.Directory)) == Nil)
  }

  test("uploads that somebody else aborted undo the job: the table is as it was") {
    val undone = table("undone")
    undone.append(Seq("p=1", "p=2"), "old")
    val id = undone.newJob()
    val uploads = undone.attempt(id, Seq("p=1", "p=2"), "new").uploads
    undone.buckets(bucket.name).abort(uploads.last.key, uploads.last.id)
    val failure = intercept[CommitLost](undone.job(id, dynamic = true).commit(uploads))
    assert(failure.getMessage.contains(uploads.last.key))
    assert(undone.contents == Seq("p=1" -> "old", "p=2" -> "old"))
    // That it is lost is known for good, to a driver that asks a year later, too.
    assert(undone.remains == Seq(s"undone/${CommitLog.Directory}$id.outcome"))
    undone.sweep()
    assert(undone.remains.size == 1)
    undone.append(Seq("p=3"), "next")
    assert(undone.contents.size == 3)
  }

  test("an attempt that wakes up late takes nothing away from the one that won") {
    val speculative = table("speculative")
    val id = speculative.newJob()
    val winner = speculative.attempt(id, Seq("p=1"), "won", attempt = 1)
    val late = speculative.task(id, attempt = 0)
    // It has begun a file, and is aborted before it hears of an upload from S3A.
    late.file(bucket.path("speculative/p=1"), FileNameSpec("", ".txt"))
    late.abort()
    speculative.job(id).commit(winner.uploads)
    assert(speculative.contents == Seq("p=1" -> "won"))
    assert(speculative.remains.isEmpty)
  }

  for (
    (name, fault) <- Seq(
      "is answered 503" -> Fault.slowDown(),
      "is reset" -> Fault.Reset,
      "takes effect and its reply is lost" -> Fault.LoseResponse
    )
  )
    test(s"a commit survives that any one of its requests $name") {
      val requestsOfOne = 13
      for (index <- 0 until requestsOfOne) {
        val hit = table(s"fault-${name.replace(' ', '-')}-$index")
        hit.append(Seq("p=1", "p=2"), "old")
        val id = hit.newJob()
        val uploads = hit.attempt(id, Seq("p=2", "p=3"), "new").uploads
        gateway.clear()
        gateway.inject(fault, skip = index)()
        try hit.job(id, dynamic = true).commit(uploads)
        finally gateway.heal()
        assert(hit.contents == Seq("p=1" -> "old", "p=2" -> "new", "p=3" -> "new"), s"request $index")
        assert(hit.remains.isEmpty, s"request $index")
        assert(gateway.requests.size > index)
      }
    }

  test("a store that goes away in the middle leaves a job that the next one finishes") {
    val interrupted = table("interrupted")
    interrupted.append(Seq("p=1"), "old")
    val id = interrupted.newJob()
    val uploads = interrupted.attempt(id, Seq("p=1", "p=2", "p=3"), "new").uploads
    gateway.inject(Fault.Reset, times = 1000)(_.method == "DELETE")
    val output = interrupted.job(id, dynamic = true)
    try intercept[CommitInterrupted](output.commit(uploads))
    finally gateway.heal()
    output.abort()
    interrupted.append(Seq("p=4"), "next")
    assert(interrupted.contents == Seq("p=1" -> "new", "p=2" -> "new", "p=3" -> "new", "p=4" -> "next"))
    // Its driver, should it ask after all.
    assert(interrupted.remains == Seq(s"interrupted/${CommitLog.Directory}$id.outcome"))
    interrupted.sweep()
    assert(interrupted.remains.isEmpty)
  }

  test("a store that is away before the decision fails the job, which can then be taken back") {
    val undecided = table("undecided")
    undecided.append(Seq("p=1"), "old")
    val id = undecided.newJob()
    val uploads = undecided.attempt(id, Seq("p=1"), "new").uploads
    gateway.inject(Fault.Reset, times = 1000)(r => isCommitLogs(r) && !r.path.endsWith(".outcome"))
    val output = undecided.job(id, dynamic = true)
    val failure =
      try intercept[IOException](output.commit(uploads))
      finally gateway.heal()
    assert(!failure.isInstanceOf[CommitInterrupted])
    output.abort()
    assert(undecided.contents == Seq("p=1" -> "old"))
    // Should the record arrive after all.
    assert(undecided.remains == Seq(s"undecided/${CommitLog.Directory}$id.outcome"))
  }

  test("a store that stays away leaves a job that may be decided, and is not taken back") {
    val unknown = table("unknown")
    unknown.append(Seq("p=1"), "old")
    val id = unknown.newJob()
    val uploads = unknown.attempt(id, Seq("p=1"), "new").uploads
    gateway.inject(Fault.Reset, times = 1000)(isCommitLogs)
    val output = unknown.job(id, dynamic = true)
    try intercept[CommitInterrupted](output.commit(uploads))
    finally gateway.heal()
    output.abort()
    assert(unknown.contents == Seq("p=1" -> "old") && unknown.remains.size == 1)
    unknown.sweep()
    assert(unknown.contents == Seq("p=1" -> "old") && unknown.remains.isEmpty)
  }

  private def isCommitLogs(request: FaultyGateway.Recorded) =
    request.method == "PUT" && request.path.contains(CommitLog.Directory)
}

/** A commit that ends in the middle in a way that is no failure of the store: what is decided stays decided. */
class StoppedCommitTest extends AnyFunSuite {

  private val Table = Location(MemoryStore.Name, "table/")

  private def stopped(name: String)(at: String => Unit): Unit = test(name) {
    val store = new MemoryStore
    store.objects += "table/p=0/old" -> Array[Byte](1)
    val uploads = Vector("table/p=0/a-job", "table/p=1/b-job").map(store.upload)
    val stopping = new ObjectStores(_ => store.bucket(after = at))
    val commit = new TableCommit(stopping, Table, new Parallel(2), patience = 0, store.clock())
    try intercept[CommitInterrupted](commit.commit("job", uploads, Vector(Table), None))
    finally Thread.interrupted()
    new TableCommit(new ObjectStores(_ => store.bucket()), Table, new Parallel(2), patience = 0).rollForward()
    assert(store.keys.filterNot(_.contains("/_")) == Set("table/p=0/a-job", "table/p=1/b-job"))
    assert(store.pending.isEmpty)
  }

  stopped("the thread of a stream that is stopped is interrupted once its job is decided") { operation =>
    if (operation.startsWith("create ")) Thread.currentThread.interrupt()
    // Goes on until the thread that waits for it gives up: otherwise it could be through before that one looks.
    if (operation.startsWith("complete ")) new CountDownLatch(1).await()
  }

  for (threads <- Seq(1, 3))
    test(s"of requests by $threads threads the first failure is thrown once all have ended") {
      val ended = ConcurrentHashMap.newKeySet[Int]()
      val failure = intercept[IllegalStateException] {
        new Parallel(threads).map(1 to 5) { n =>
          if (n == 2 || n == 4) throw new IllegalStateException(s"$n")
          ended.add(n)
        }
      }
      assert(failure.getMessage == "2")
      assert(ended.asScala == Set(1, 3, 5))
    }

  test("a helper that saw a file missing, and slept until the job had landed, takes nothing back") {
    val store = new MemoryStore
    val uploads = Vector("table/p=0/a-job", "table/p=1/b-job").map(store.upload)
    val (asleep, landed) = (new CountDownLatch(1), new CountDownLatch(1))
    def committing(before: String => Unit) =
      new TableCommit(new ObjectStores(_ => store.bucket(before)), Table, new Parallel(1), patience = 0, store.clock())
    val helper = new Thread(() =>
      committing { operation =>
        if (operation.startsWith("create ") && operation.endsWith(".outcome")) {
          asleep.countDown()
          landed.await()
        }
      }.rollForward(): Unit
    )
    // The driver has completed the first file when somebody deletes it, and a helper comes.
    committing { operation =>
      if (operation == "complete table/p=1/b-job") {
        store.drop("table/p=0/a-job")
        helper.start()
        asleep.await()
      }
    }.commit("job", uploads, Vector.empty, None)
    landed.countDown()
    helper.join()
    assert(store.keys.filterNot(_.contains("/_")) == Set("table/p=1/b-job"))
    assert(store.keys.filter(_.endsWith(".outcome")).isEmpty)
  }

  stopped("a client that throws something of its own while files are completed") { operation =>
    if (operation.startsWith("complete ")) throw new IllegalStateException("the client is closed")
  }

  stopped("a machine that has no room for another thread while files are completed") { operation =>
    if (operation.startsWith("complete ")) throw new OutOfMemoryError("unable to create native thread")
  }

  stopped("a machine that has no room for another thread when the record is created") { operation =>
    if (operation.startsWith("create ")) throw new OutOfMemoryError("unable to create native thread")
  }

  test("a record that arrives when its job has been reported as failed is undone, and deletes nothing") {
    val store = new MemoryStore
    store.objects += "table/p=0/old" -> Array[Byte](1)
    def commit(late: String => Boolean) = new TableCommit(
      new ObjectStores(_ => store.bucket(late = late)),
      Table,
      new Parallel(1),
      patience = 0,
      store.clock()
    )
    val failure = intercept[IOException] {
      commit(late = !_.endsWith(".outcome")).commit("empty", Vector.empty, Vector(Table), None)
    }
    assert(!failure.isInstanceOf[CommitInterrupted])
    store.arrive()
    val next = Vector(store.upload("table/p=1/b-next"))
    commit(late = _ => false).commit("next", next, Vector.empty, None)
    assert(store.keys.filterNot(_.contains("/_")) == Set("table/p=0/old", "table/p=1/b-next"))
  }
}

/** Jobs of RDDs write files of the same names, which say nothing of the job. */
class EqualNamesTest extends AnyFunSuite {

  private val Table = Location(MemoryStore.Name, "table/")
  private val Names = Seq("table/part-00000", "table/part-00001")

  private def committing(store: MemoryStore)(before: String => Unit, after: String => Unit = _ => ()): TableCommit =
    new TableCommit(
      new ObjectStores(_ => store.bucket(before, after)),
      Table,
      new Parallel(1),
      patience = 0,
      store.clock()
    )

  private def isRecord(operation: String) = operation.matches("create .*/[0-9]+")

  test("of two jobs the later one fails before anything of it is visible, and the first one's files stay") {
    val store = new MemoryStore
    val (first, later) = (Names.map(store.upload).toVector, Names.map(store.upload).toVector)
    committing(store)(_ => ()).commit("first", first, Vector.empty, None)
    val records = new AtomicInteger
    val failure = intercept[IOException] {
      committing(store)(operation => if (isRecord(operation)) records.incrementAndGet(): Unit)
        .commit("later", later, Vector.empty, None)
    }
    assert(failure.getMessage.contains("files of the same names") && records.get == 0)
    assert(!failure.isInstanceOf[CommitInterrupted] && first.forall(store.holds))
  }

  test("a job whose uploads another aborts once it is decided is lost, and takes nothing of the other's") {
    val store = new MemoryStore
    val (first, later) = (Names.map(store.upload).toVector, Names.map(store.upload).toVector)
    val others = store.bucket()
    intercept[CommitLost] {
      // The other one has looked at the commit log before, and slept.
      committing(store)(
        _ => (),
        after = operation =>
          if (isRecord(operation)) {
            first.foreach(others.complete)
            later.foreach(upload => others.abort(upload.key, upload.id))
          }
      ).commit("later", later, Vector.empty, None)
    }
    assert(first.forall(store.holds) && store.pending.isEmpty)
  }

  test("a lost job's files go where the store's entity tags say nothing of them, if its driver has completed them") {
    val store = new MemoryStore(opaqueTags = true)
    val uploads = Names.map(store.upload).toVector
    intercept[CommitLost] {
      committing(store)(
        _ => (),
        after = operation => if (isRecord(operation)) store.bucket().abort(uploads.last.key, uploads.last.id)
      ).commit("job", uploads, Vector.empty, None)
    }
    assert(!store.keys.exists(Names.contains) && store.pending.isEmpty)
  }

  test("a driver that slept while others undid its job, and another landed, takes nothing of that one's") {
    for (opaque <- Seq(false, true)) {
      val store = new MemoryStore(opaqueTags = opaque)
      val lost = Names.map(store.upload).toVector
      lazy val later = Names.map(store.upload).toVector
      val asleep = new AtomicBoolean(true)
      def others(): Unit = {
        committing(store)(_ => ()).rollForward()
        committing(store)(_ => ()).commit("later", later, Vector.empty, None)
      }
      intercept[IOException] {
        committing(store)(
          // It has completed its first file, found the second one missing, and says so only now.
          operation => if (operation.endsWith(".outcome") && asleep.getAndSet(false)) others(),
          after = operation => if (isRecord(operation) && asleep.get) store.bucket().abort(lost.last.key, lost.last.id)
        ).commit("lost", lost, Vector.empty, None)
      }
      assert(!asleep.get && later.forall(store.holds), opaque)
    }
  }

  test("a file that somebody else has completed for the job is known by its entity tag") {
    val store = new MemoryStore
    val uploads = Names.map(store.upload).toVector
    committing(store)(
      _ => (),
      after = operation => if (isRecord(operation)) uploads.foreach(store.bucket().complete)
    ).commit("job", uploads, Vector.empty, None)
    assert(uploads.forall(store.holds))
  }

  test("all orders of two jobs' turns leave the files of one of them, which alone reports success") {
    for (first <- 0 to 20; second <- 1 to 20) {
      val store = new MemoryStore
      val uploads = Seq("job1", "job2").map(_ -> Names.map(store.upload).toVector).toMap
      val landed = ConcurrentHashMap.newKeySet[String]()
      val failed = ConcurrentHashMap.newKeySet[String]()
      val interleaving =
        new Interleaving(Interleaving.turns(Seq(first, second)), uploads.keys.toSeq.sorted, (_, _) => false)
      interleaving.run { job =>
        try {
          committing(store)(_ => interleaving.step(job)).commit(job, uploads(job), Vector.empty, None)
          landed.add(job): Unit
        } catch { case _: IOException => failed.add(job): Unit }
      }
      assert(landed.size == 1 && failed.size == 1, s"after $first and $second steps")
      assert(uploads(landed.asScala.head).forall(store.holds), s"after $first and $second steps")
    }
  }

  test("entity tags tell whose an object is, where they are MD5 sums") {
    def upload(tags: String*) = Upload("lake", "key", "id", tags.map(Part(_, None, None)).toVector, 1)
    val sum = "d41d8cd98f00b204e9800998ecf8427e"
    assert(upload(s"\"$sum\"", sum).makes("5873dd45edd01f09c1ef2e7819369e8e-2").contains(true))
    assert(upload(sum, sum).makes("59adb24ef3cdbe0297f05b395827453f-1").contains(false))
    assert(upload(sum).makes(sum).contains(true))
    assert(upload(sum).makes("59adb24ef3cdbe0297f05b395827453f-1").contains(true))
    assert(upload(sum).makes("").isEmpty)
    assert(upload("encrypted").makes("59adb24ef3cdbe0297f05b395827453f-1").isEmpty)
  }
}
