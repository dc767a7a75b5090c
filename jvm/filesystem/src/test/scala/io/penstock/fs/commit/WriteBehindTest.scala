package io.penstock.fs.commit

import java.io.IOException
import java.util.concurrent.{CountDownLatch, LinkedBlockingQueue, TimeUnit}

import scala.collection.mutable
import scala.concurrent.ExecutionContext.Implicits.global
import scala.concurrent.duration._
import scala.concurrent.{Await, Future}

import org.apache.hadoop.fs.Path
import org.scalacheck.Gen
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}

import io.penstock.fs.testing.Properties

/** What a job knows of files that executors still owe, whatever they say and in whichever order. */
class JobReportsTest extends AnyFunSuite with Properties {

  private val files = (0 until 4).map(n => Location("lake", s"table/part-$n"))
  private val tickets = files.zipWithIndex.map { case (file, n) => Ticket((n % 2).toString, "first", file, 100L + n) }

  private def arrived(n: Int, bytes: Long): TaskReport =
    TaskReport.Arrived("job", "first", Upload(files(n).bucket, files(n).key, s"upload-$n", Vector.empty, bytes))

  private val report: Gen[TaskReport] = for {
    n <- Gen.choose(0, 3)
    kind <- Gen.frequency(8 -> "whole", 1 -> "short", 1 -> "failed")
  } yield kind match {
    case "whole" => arrived(n, 100L + n)
    case "short" => arrived(n, 99L)
    case _ => TaskReport.Failed("job", "first", files(n), "the disk is full")
  }

  test("a job has its files only when each has arrived whole, and is refused where one failed, is short or was lost") {
    forAll(Gen.listOf(report), Gen.someOf("0", "1")) { (reports, gone) =>
      val book = reports.foldLeft(JobReports(Location("lake", "table/")))(_ heard _)
      val last = reports.collect { case TaskReport.Arrived(_, _, upload) => upload.location -> upload.bytes }.toMap
      val failed = reports.collect { case TaskReport.Failed(_, _, file, _) => file }.toSet
      val isWrong = tickets.exists { ticket =>
        failed(ticket.file) || last.get(ticket.file).exists(_ != ticket.bytes) ||
        (!last.contains(ticket.file) && gone.contains(ticket.executor))
      }
      book.settled(tickets, gone.toSet) match {
        case Left(_) => assert(isWrong)
        case Right(uploads) =>
          assert(!isWrong)
          assert(uploads.isDefined == tickets.forall(ticket => last.contains(ticket.file)))
          uploads.foreach(all => assert(all.map(_.location) == files))
      }
    }
  }

  test("a report that comes twice, or is of a file that nobody waits for, changes nothing") {
    forAll(Gen.listOf(report)) { reports =>
      val once = reports.foldLeft(JobReports(Location("lake", "table/")))(_ heard _)
      val other = TaskReport.Failed("job", "first", Location("lake", "other/file"), "it is gone")
      val more = (reports.lastOption.toSeq :+ other).foldLeft(once)(_ heard _)
      assert(more.settled(tickets, Set.empty) == once.settled(tickets, Set.empty))
    }
  }
}

/** Files that are closed behind their tasks, with a store that answers when the test says so. */
class WriteBehindTest extends AnyFunSuite with Eventually {

  implicit override def patienceConfig: PatienceConfig = PatienceConfig(Span(60, Seconds), Span(5, Millis))

  private def locationOf(name: String) = Location("lake", s"table/$name")

  /** An executor, the driver that hears it, and what S3A notes of an attempt's uploads. */
  private class World(most: Long = 1000, silent: Int = 0) {
    val heard = new LinkedBlockingQueue[TaskReport]
    private var refusals = silent
    val uploads = new BackgroundUploads(
      "7",
      most,
      report =>
        synchronized {
          if (refusals > 0) {
            refusals -= 1
            throw new IOException("the driver is busy")
          }
          heard.add(report): Unit
        }
    )
    private val noted = mutable.Buffer.empty[Upload]
    val attempt = new AttemptFiles(
      "job",
      "first",
      uploads,
      () =>
        noted.synchronized {
          val all = noted.toVector
          noted.clear()
          all
        }
    )

    /** A file whose close ends when the latch is let go; by failing if `failure` is there. */
    def close(name: String, bytes: Long = 10, failure: Option[IOException] = None): (Boolean, CountDownLatch) = {
      val latch = new CountDownLatch(1)
      val path = new Path(s"s3a://lake/table/__magic/$name")
      val handedOver = attempt.closing(path, locationOf(name), bytes) {
        latch.await()
        failure.foreach(throw _)
        noted.synchronized(noted += Upload("lake", s"table/$name", s"upload of $name", Vector.empty, bytes)): Unit
      }
      (handedOver, latch)
    }

    def next(): TaskReport = heard.poll(60, TimeUnit.SECONDS)
  }

  test("a task reports the files that are up before it commits, and owes the others") {
    val world = new World
    val (early, late) = (world.close("early"), world.close("late"))
    early._2.countDown()
    eventually(assert(world.attempt.openFiles == Set(locationOf("late"))))
    val (uploaded, owed) = world.attempt.commit()
    assert(uploaded.map(_.key) == Seq("table/early"))
    assert(owed == Seq(Ticket("7", "first", locationOf("late"), 10)))
    assert(world.heard.isEmpty)
    late._2.countDown()
    assert(
      world
        .next() == TaskReport.Arrived("job", "first", Upload("lake", "table/late", "upload of late", Vector.empty, 10))
    )
  }

  test("a file that fails before its task commits fails the task, which can be run again") {
    val world = new World
    val (_, latch) = world.close("lost", failure = Some(new IOException("connection reset")))
    latch.countDown()
    world.attempt.settle()
    assert(intercept[IOException](world.attempt.commit()).getMessage.contains("connection reset"))
    assert(world.heard.isEmpty)
  }

  test("a file that fails behind its task is reported to the driver, however busy that is") {
    val world = new World(silent = 2)
    val (_, latch) = world.close("lost", failure = Some(new IOException("connection reset")))
    assert(world.attempt.commit()._2.size == 1)
    latch.countDown()
    assert(
      world.next() == TaskReport.Failed("job", "first", locationOf("lost"), "java.io.IOException: connection reset")
    )
  }

  test("where the bytes have no room the task closes its file itself, and has none open") {
    val world = new World(most = 15)
    val (first, latch) = world.close("first")
    val (second, _) = world.close("second")
    assert(first && !second)
    assert(world.attempt.openFiles == Set(locationOf("first")))
    latch.countDown()
    world.attempt.settle()
    eventually(assert(world.close("third")._1))
  }

  test("an attempt that is aborted waits for what is on its way, so that all of it is known") {
    val world = new World
    val (_, latch) = world.close("late")
    val settled = Future(world.attempt.settle())
    assert(!settled.isCompleted)
    latch.countDown()
    Await.result(settled, 60.seconds)
    assert(world.attempt.openFiles.isEmpty && world.attempt.commit()._1.map(_.key) == Seq("table/late"))
  }

  test("an executor that is asked to leave redeems its tickets first") {
    val world = new World
    val (_, latch) = world.close("late")
    world.attempt.commit()
    val stopped = Future(world.uploads.stop())
    latch.countDown()
    Await.result(stopped, 60.seconds)
    assert(world.heard.size == 1)
    assert(!world.close("after")._1)
  }

  private val owed = Seq(Ticket("7", "first", locationOf("late"), 10))
  private val arrived =
    TaskReport.Arrived("waiting", "first", Upload("lake", "table/late", "upload of late", Vector.empty, 10))

  private def waiting(executors: () => Set[String]): Future[Vector[Upload]] = {
    RunningJobs.begin("waiting", Location("lake", "table/"))
    Future(RunningJobs.uploads("waiting", owed, executors))
  }

  private def ended[A](result: => A): A =
    try result
    finally RunningJobs.end("waiting")

  test("a job waits until its executors have reported every file, also before it asks") {
    ended {
      val waits = waiting(() => Set("7"))
      RunningJobs.heard(arrived)
      assert(Await.result(waits, 60.seconds).map(_.id) == Seq("upload of late"))
      assert(RunningJobs.uploads("waiting", owed, () => Set.empty).size == 1)
    }
  }

  test("a job whose executor is lost fails, but not by a question that nobody answered") {
    ended {
      @volatile var asked = 0
      val waits = waiting { () =>
        asked += 1
        if (asked == 1) throw new IOException("timed out") else Set("3")
      }
      val failed = intercept[IOException](Await.result(waits, 60.seconds))
      assert(asked >= 3 && failed.getMessage.contains("executor 7 was lost before it had uploaded"))
      assert(failed.getMessage.contains(s"${WriteBehind.Size}=0"))
    }
  }

  test("what is heard of a job that is over, or was never begun, is forgotten") {
    RunningJobs.heard(arrived)
    ended {
      RunningJobs.begin("waiting", Location("lake", "table/"))
      assert(intercept[IOException](RunningJobs.uploads("waiting", owed, () => Set.empty)).getMessage.contains("lost"))
    }
  }

  test("a job that has forgotten what it waits for says that it is over") {
    RunningJobs.end("waiting")
    assert(intercept[IOException](RunningJobs.uploads("waiting", owed, () => Set("7"))).getMessage.contains("is over"))
  }
}
