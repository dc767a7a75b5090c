package io.penstock.suites

import org.apache.spark.sql.SQLQueryTestSuite

/** Spark's files of queries, whose answers are recorded beside them. */
abstract class SqlFiles extends SQLQueryTestSuite with OverPenstock {

  // Analyzed plans are recorded, too; nothing of Penstock is in them. Runs while Spark's class is constructed.
  override def createScalaTestCase(testCase: TestCase): Unit =
    if (!testCase.name.endsWith("_analyzer_test") && SqlFiles.isWanted(testCase.name))
      super.createScalaTestCase(testCase)
}

private object SqlFiles {

  /** Prefixes of the wanted files' names, separated by commas; `all` for every file. */
  private val wanted = sys.props.getOrElse("penstock.suites.sql", "all").split(',').map(_.trim).filter(_.nonEmpty)

  def isWanted(name: String): Boolean = wanted.contains("all") || wanted.exists(name.startsWith)
}
