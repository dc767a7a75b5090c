package io.penstock.skipping.fuzz

import java.nio.file.{Files, Path}

import org.apache.spark.sql.SparkSession

/** Runs worlds: each some dozens of queries, with changes to the tables between them. */
final class Fuzzer(session: SparkSession, directory: Path) {

  /** Runs a world's queries, or one of them after the same changes. */
  def run(seed: Long, queries: Int, only: Option[Int] = None): Fuzzer.Tally = {
    val home = Files.createTempDirectory(directory, s"world-$seed-")
    val sessions = Seq.fill(2)(session.newSession())
    val world = new World(seed, session, home)
    val oracle = new Oracle(sessions.head, sessions.last, home)
    try {
      sessions.foreach(world.show)
      (0 until only.fold(queries)(_ + 1)).foldLeft(Fuzzer.Tally()) { (tally, n) =>
        if (n % Fuzzer.QueriesPerChange == Fuzzer.QueriesPerChange - 1) {
          world.change(n)
          sessions.foreach(world.show)
        }
        if (only.forall(_ == n)) tally + verdicts(seed, n, world, oracle) else tally
      }
    } finally world.remove()
  }

  private def verdicts(seed: Long, n: Int, world: World, oracle: Oracle): Fuzzer.Tally = {
    val ways = world.query(n)
    ways
      .zip(oracle.check(ways))
      .map {
        case (_, Verdict.Pointless(why)) => Fuzzer.Tally(pointless = Seq(s"$seed:$n ${why.take(150)}"))
        case (_, Verdict.Same(skipped, byKeys)) =>
          Fuzzer.Tally(same = 1, skipping = if (skipped > 0) 1 else 0, byKeys = if (byKeys) 1 else 0)
        case (query, Verdict.Different(how)) =>
          Fuzzer.Tally(failures = Seq(report(seed, n, query, how, world, oracle)))
      }
      .reduce(_ + _)
  }

  private def report(seed: Long, n: Int, query: Query, how: String, world: World, oracle: Oracle): String = {
    val (smallest, reason) = smaller(query, how, oracle)
    s"""seed $seed:$n
       |$reason
       |found by: ${query.sql}
       |smallest: ${smallest.sql}
       |settings: ${smallest.settings.toSeq.sorted.map { case (name, value) => s"$name=$value" }.mkString(" ")}
       |${oracle.explain(smallest)}
       |${world.account}""".stripMargin
  }

  /** Takes away what is not needed for a difference, one by one. */
  @annotation.tailrec
  private def smaller(query: Query, how: String, oracle: Oracle): (Query, String) =
    query.smaller.iterator
      .map(less => less -> oracle.check(less))
      .collectFirst { case (less, Verdict.Different(reason)) => less -> reason } match {
      case Some((less, reason)) => smaller(less, reason, oracle)
      case None => query -> how
    }
}

object Fuzzer {

  private val QueriesPerChange = 12

  /**
   * @param same
   *   queries with the same answer, each counted in each way it was asked
   * @param skipping
   *   those of them that did skip files
   * @param byKeys
   *   those that skipped files by keys of a join
   * @param pointless
   *   why queries fail without skipping
   */
  final case class Tally(
      same: Int = 0,
      skipping: Int = 0,
      byKeys: Int = 0,
      pointless: Seq[String] = Nil,
      failures: Seq[String] = Nil
  ) {
    def asked: Int = same + pointless.size + failures.size

    def +(other: Tally): Tally = Tally(
      same + other.same,
      skipping + other.skipping,
      byKeys + other.byKeys,
      pointless ++ other.pointless,
      failures ++ other.failures
    )
  }
}
