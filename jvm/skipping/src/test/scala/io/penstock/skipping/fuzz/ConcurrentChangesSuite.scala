package io.penstock.skipping.fuzz

import java.nio.file.Files
import java.util.concurrent.atomic.{AtomicBoolean, AtomicInteger}
import java.util.concurrent.{Executors, TimeUnit}

import scala.concurrent.duration._
import scala.concurrent.{Await, ExecutionContext, Future}
import scala.util.control.NonFatal

import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.matchers.should.Matchers

import io.penstock.skipping.LocalSpark
import io.penstock.skipping.build.IndexMaintenance

/**
 * Files are added, overwritten and deleted while two refresh the indexes all the time and queries are asked. A
 * comparison counts where no file changed from before its first query to after its second; indexes may have.
 */
class ConcurrentChangesSuite extends AnyFunSuite with Matchers with LocalSpark {

  override protected def settings: Map[String, String] = FuzzedSpark.settings

  /** As many as the long run of the fuzzers affords: 12 of 600 queries, 4 of a few dozen. */
  private val Changes = math.max(4, FuzzedSpark.queries / 50)
  private val ComparedPerChange = 3
  private val Refreshers = 2
  private val Enough = 10.minutes

  test("answers are the same while files are overwritten and indexes refreshed at once") {
    assume(FuzzedSpark.queries > 0, "asked for with -Dpenstock.fuzz.queries=N")
    val seed = FuzzedSpark.seed
    val home = Files.createTempDirectory(directory, s"concurrent-$seed-")
    val world = new ParquetWorld(seed, spark, home)
    val sessions = Seq.fill(2)(spark.newSession())
    sessions.foreach(world.show)
    val oracle = new Oracle(sessions.head, sessions.last, home)
    // Odd while files change.
    val version = new AtomicInteger
    val compared, refreshed = new AtomicInteger
    val done = new AtomicBoolean

    def change(): Unit = for (n <- 1 to Changes if !done.get) {
      version.incrementAndGet()
      world.change(n)
      version.incrementAndGet()
      val before = compared.get
      while (!done.get && compared.get < before + ComparedPerChange) TimeUnit.MILLISECONDS.sleep(5)
    }

    def refresh(): Unit = while (!done.get) {
      world.tables.foreach(table => IndexMaintenance.refresh(spark, world.indexed(table)))
      refreshed.incrementAndGet()
    }

    /** None where files changed meanwhile. */
    def compare(n: Int): Option[(Query, Verdict)] = {
      val before = version.get
      val query = world.query(n).head
      val verdict =
        try {
          sessions.foreach(world.show)
          oracle.check(query)
        } catch { case NonFatal(e) => Verdict.Different(s"a table cannot be listed: $e") }
      Option.when(before % 2 == 0 && version.get == before)(query -> verdict)
    }

    def ask(): Seq[String] =
      Iterator
        .from(0)
        .takeWhile(_ => !done.get)
        .flatMap(compare)
        .tapEach(_ => compared.incrementAndGet())
        .collect { case (query, Verdict.Different(how)) => s"seed $seed: $how\n${query.sql}\n${world.account}" }
        .take(1)
        .toSeq

    val threads = Executors.newFixedThreadPool(2 + Refreshers)
    implicit val context: ExecutionContext = ExecutionContext.fromExecutor(threads)
    def until[A](work: => A): Future[A] = Future(
      try work
      finally done.set(true)
    )
    // Whichever ends first, ends them all.
    val differences = until(ask())
    val others = Seq.fill(Refreshers)(
      Future(
        try refresh()
        catch { case NonFatal(e) => done.set(true); throw e }
      )
    )
    val changes = until(change())
    try
      Ending.within(Enough) {
        Await.result(changes, Duration.Inf)
        Await.result(differences, Duration.Inf) shouldBe empty
        others.foreach(Await.result(_, Duration.Inf))
      }
    finally threads.shutdownNow()
    info(s"seed $seed: ${compared.get} comparisons, ${refreshed.get} rounds of refreshes")
    compared.get should be >= Changes * ComparedPerChange
    refreshed.get should be >= Refreshers
  }
}
