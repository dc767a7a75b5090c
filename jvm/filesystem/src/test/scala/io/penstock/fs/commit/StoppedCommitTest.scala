package io.penstock.fs.commit

import java.util.concurrent.{ConcurrentHashMap, CountDownLatch}

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

/** A commit that ends in the middle in a way that is no failure of the store: what is decided stays decided. */
class StoppedCommitTest extends AnyFunSuite {

  private val Table = Location(MemoryStore.Name, "table/")

  private def stopped(name: String)(at: String => Unit): Unit = test(name) {
    val store = new MemoryStore
    store.objects += "table/p=0/old" -> Array[Byte](1)
    val uploads = Vector("table/p=0/a-job", "table/p=1/b-job").map(store.upload)
    val stopping = new Buckets(_ => store.bucket(after = at))
    val commit = new TableCommit(stopping, Table, new Parallel(2), patience = 0, store.clock())
    try intercept[CommitInterrupted](commit.commit("job", uploads, Vector(Table), None))
    finally Thread.interrupted()
    new TableCommit(new Buckets(_ => store.bucket()), Table, new Parallel(2), patience = 0).rollForward()
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
      new TableCommit(new Buckets(_ => store.bucket(before)), Table, new Parallel(1), patience = 0, store.clock())
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
}
