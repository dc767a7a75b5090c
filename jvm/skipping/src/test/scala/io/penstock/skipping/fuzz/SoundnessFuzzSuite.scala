package io.penstock.skipping.fuzz

import java.util.concurrent.Executors

import scala.concurrent.duration._
import scala.concurrent.{Await, ExecutionContext, Future}

import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.matchers.should.Matchers

import io.penstock.skipping.LocalSpark
import io.penstock.skipping.plan.SubqueryTimeout

/**
 * Random queries over random tables have the same answers with skipping and without.
 *
 *   - `-Dpenstock.fuzz.queries=N`: the number of queries, each asked in three ways
 *   - `-Dpenstock.fuzz.seed=S`: the first world; `S:N` runs one query of a world again
 */
class SoundnessFuzzSuite extends AnyFunSuite with Matchers with LocalSpark {

  /** The files of a world change after every dozen of them. */
  private val MostPerWorld = 60

  /** Two worlds at least: they run at once. */
  private val worldCount = math.max(2, FuzzedSpark.queries / MostPerWorld)
  private val queriesPerWorld = math.max(1, FuzzedSpark.queries / worldCount)

  /** So many, of so many worlds, that their numbers tell something of the fuzzer. */
  private val Enough = 900

  override protected def settings: Map[String, String] = FuzzedSpark.settings

  private val seed = FuzzedSpark.seed
  private val only = FuzzedSpark.only

  test("an answer is the same with skipping and without") {
    assume(FuzzedSpark.queries > 0, "asked for with -Dpenstock.fuzz.queries=N")
    val fuzzer = new Fuzzer(spark, directory, new ParquetWorld(_, _, _))
    val tally = if (only.isDefined) fuzzer.run(seed, MostPerWorld, only) else worlds(fuzzer)
    info(
      s"seed $seed: ${tally.asked} answers compared, ${tally.skipping} skip files, ${tally.byKeys} of them by keys of joins, " +
        s"${tally.pointless.size} fail anyway"
    )
    tally.failures shouldBe empty
    withClue("keys that never came")(SubqueryTimeout.timesLost shouldBe 0)
    if (tally.asked >= Enough) {
      // Or the fuzzer asks nothing any more.
      withClue(tally.pointless.mkString("\n"))(tally.pointless.size should be < tally.asked / 8)
      tally.skipping should be > tally.asked / 6
      tally.byKeys should be > tally.asked / 90
    }
  }

  /** Several at once: they share the driver's cache of indexes, and the planner is one thread each. */
  private def worlds(fuzzer: Fuzzer): Fuzzer.Tally = {
    val threads = Executors.newFixedThreadPool(2)
    try {
      val context = ExecutionContext.fromExecutor(threads)
      val runs = (0 until worldCount).map(n => Future(fuzzer.run(seed + n, queriesPerWorld))(context))
      Ending.within(15.minutes + FuzzedSpark.queries.seconds)(runs.map(Await.result(_, Duration.Inf)).reduce(_ + _))
    } finally threads.shutdownNow()
  }
}
