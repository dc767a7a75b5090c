package io.penstock.suites

import java.nio.charset.StandardCharsets.UTF_8

import scala.io.Source
import scala.util.Using

/** Tests that are not run over Penstock. */
object Differences {

  private val FoundTwice =
    "counts subqueries in the plan: what a scan tells of its skipping holds those that its files " +
      "are selected by, so that each is found twice; it is run once"

  private val KeysWereRead =
    "wants no event of a subquery where a join comes to nothing; skipping has run one for the join's keys"

  private val RowGroups = "counts row groups that are read without Parquet's filters, whose files skipping leaves out"

  /**
   * Tests of what Penstock changes on purpose, by Spark's name of the suite or ours: the beginning of each, and the
   * reason.
   */
  private val OnPurpose: Map[String, Seq[(String, String)]] = Map(
    "AdaptiveQueryExecSuite" -> Seq(
      "Reuse the default parallelism" -> "counts a shuffle's readers, of which fewer files to scan leave others",
      "SPARK-32649" -> KeysWereRead,
      "SPARK-35455" -> KeysWereRead
    ),
    "InjectRuntimeFilterSuite" -> Seq(
      "Merge runtime bloom filters" -> "counts subqueries: two more bring skipping the keys of the join's two columns"
    ),
    "DynamicPartitionPruningV1SuiteAEOn" -> Seq(
      "Make sure dynamic pruning works on uncorrelated queries" -> FoundTwice,
      "SPARK-38674" -> FoundTwice,
      "partition pruning in broadcast hash joins with aliases" ->
        "looks for a subquery of the pruning filter's own; here it reuses the one that skipping asks for the same keys",
      "cleanup any DPP filter that isn't pushed down due to expression id clashes" ->
        ("looks for filters by join keys in the plan before it is run, where skipping's are still among the conditions " +
          "on rows; they are taken to the scans when a stage is planned")
    ),
    "DynamicPartitionPruningV1SuiteAEOff" -> Seq(
      "Make sure dynamic pruning works on uncorrelated queries" -> FoundTwice,
      "Subquery reuse across the whole plan" -> FoundTwice,
      "SPARK-38674" -> FoundTwice
    ),
    "IndexedParquetFilterSuite" -> Seq(
      "Filters should be pushed down for vectorized Parquet reader" -> RowGroups,
      "filter pushdown - StringPredicate" -> RowGroups,
      "SPARK-34562" -> RowGroups
    ),
    "SqlFiles" -> Seq(
      "execute-immediate.sql" ->
        ("wants AnalysisException for parameters of two styles; the parser is a proxy, which can throw only what its " +
          "interface declares: ParseException, a subclass, with the same condition")
    ),
    "StoredParquetIoSuite" -> Seq(
      "SPARK-40128" -> "reads a file whose pages' check sums do not fit, which Penstock's settings have Parquet verify"
    )
  )

  /** Tests whose answers depend on an order of rows that tables of several files do not have, in either arm. */
  private val ByOrder: Map[String, Seq[(String, String)]] = Map(
    "SubquerySuite" -> Seq("SPARK-36656" -> "FIRST takes a row of whichever of the two files comes first")
  )

  /** Tests that fail over Spark alone in the same place: a line each, `SUITE`, a tab, `TEST`. */
  private lazy val baseline: Set[(String, String)] =
    Option(getClass.getResourceAsStream("fails-without-penstock.txt")).fold(Set.empty[(String, String)]) { stream =>
      Using.resource(Source.fromInputStream(stream, UTF_8.name)) {
        _.getLines()
          .filterNot(_.startsWith("#"))
          .map(_.split("\t", 2))
          .collect { case Array(suite, test) =>
            (suite, test)
          }
          .toSet
      }
    }

  /**
   * @param suite
   *   ours
   * @param of
   *   the one of Spark's that it is
   */
  def isLeftOut(suite: String, of: String, test: String): Boolean = {
    def isIn(list: Map[String, Seq[(String, String)]]) =
      Seq(suite, of).flatMap(list.getOrElse(_, Nil)).exists { case (beginning, _) => test.startsWith(beginning) }
    isIn(ByOrder) || Arm.isPenstock && (baseline((suite, test)) || isIn(OnPurpose))
  }
}
