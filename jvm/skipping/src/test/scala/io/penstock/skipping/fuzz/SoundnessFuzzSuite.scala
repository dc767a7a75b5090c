package io.penstock.skipping.fuzz

import java.util.concurrent.{Executors, TimeoutException}

import scala.concurrent.duration._
import scala.concurrent.{Await, ExecutionContext, Future}
import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.matchers.should.Matchers

import io.penstock.skipping.LocalSpark

/**
 * Random queries over random tables have the same answers with skipping and without.
 *
 *   - `-Dpenstock.fuzz.queries=N`: how many
 *   - `-Dpenstock.fuzz.seed=S`: from which world on; `S:N` runs one query of a world again
 */
class SoundnessFuzzSuite extends AnyFunSuite with Matchers with LocalSpark {

  private val QueriesPerWorld = 60

  /** So many of so many worlds that their numbers tell something of the fuzzer. */
  private val EnoughQueries = 600

  override protected def settings: Map[String, String] = FuzzedSpark.settings

  private val seed = FuzzedSpark.seed
  private val only = FuzzedSpark.only

  test("an answer is the same with skipping and without") {
    assume(FuzzedSpark.queries > 0, "asked for with -Dpenstock.fuzz.queries=N")
    val fuzzer = new Fuzzer(spark, directory)
    val tally = if (only.isDefined) fuzzer.run(seed, QueriesPerWorld, only) else worlds(fuzzer)
    info(
      s"seed $seed: ${tally.asked} queries, ${tally.skipping} skip files, ${tally.byKeys} of them by keys of joins, " +
        s"${tally.pointless.size} fail anyway"
    )
    tally.failures shouldBe empty
    if (tally.asked >= EnoughQueries) {
      // Or the fuzzer asks nothing any more.
      withClue(tally.pointless.mkString("\n"))(tally.pointless.size should be < tally.asked / 8)
      tally.skipping should be > tally.asked / 5
      tally.byKeys should be > tally.asked / 40
    }
  }

  /** Several at once: they share the driver's cache of indexes, and the planner is one thread each. */
  private def worlds(fuzzer: Fuzzer): Fuzzer.Tally = {
    val threads = Executors.newFixedThreadPool(2)
    try {
      val context = ExecutionContext.fromExecutor(threads)
      val runs = (0 until math.max(1, FuzzedSpark.queries / QueriesPerWorld)).map { n =>
        Future(fuzzer.run(seed + n, QueriesPerWorld))(context)
      }
      val end = Deadline.now + 5.minutes + FuzzedSpark.queries.seconds
      try runs.map(Await.result(_, end.timeLeft)).reduce(_ + _)
      catch { case _: TimeoutException => fail(s"queries that never end\n$stacks") }
    } finally threads.shutdownNow()
  }

  private def stacks: String = Thread.getAllStackTraces.asScala
    .map { case (thread, frames) => s"${thread.getName} ${thread.getState}\n" + frames.map("    " + _).mkString("\n") }
    .mkString("\n")
}
