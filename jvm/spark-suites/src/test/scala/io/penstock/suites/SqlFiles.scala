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

  /** What the names of wanted files begin with, with commas between; empty: all are wanted. */
  private val wanted = sys.props.getOrElse("penstock.suites.sql", "").split(',').map(_.trim).filter(_.nonEmpty)

  def isWanted(name: String): Boolean = wanted.isEmpty || wanted.exists(name.startsWith)
}
