package io.penstock.catalog

import java.util

import org.apache.iceberg.spark.ExtendedParser
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.analysis.ResolveBranch
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.optimizer.ReplaceStaticInvoke
import org.apache.spark.sql.catalyst.parser.extensions.IcebergSparkSqlExtensionsParser
import org.apache.spark.sql.catalyst.parser.{ParameterContext, ParserInterface}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.{FunctionIdentifier, TableIdentifier}
import org.apache.spark.sql.execution.datasources.v2.ExtendedDataSourceV2Strategy
import org.apache.spark.sql.types.{DataType, StructType}

/**
 * `spark.sql.extensions=io.penstock.catalog.IcebergExtension`: Iceberg's statements beside Spark's (partition fields,
 * branches, tags, write order), and its rules for branches and partitioning functions.
 *
 * Iceberg's own extension has rules for its views too, which no catalog here holds, and a parser that every statement
 * passes and that cannot parse the parameters of a function.
 */
final class IcebergExtension extends (SparkSessionExtensions => Unit) {

  override def apply(extensions: SparkSessionExtensions): Unit = {
    extensions.injectParser((_, delegate) => new IcebergStatements(delegate))
    extensions.injectResolutionRule(ResolveBranch(_))
    extensions.injectOptimizerRule(_ => ReplaceStaticInvoke)
    extensions.injectPlannerStrategy(ExtendedDataSourceV2Strategy(_))
  }
}

/** Another parser, with Iceberg's statements, which are all of `ALTER TABLE`. Thread-safe. */
private final class IcebergStatements(delegate: ParserInterface) extends ParserInterface with ExtendedParser {

  private lazy val iceberg = new IcebergSparkSqlExtensionsParser(delegate)

  private def parserOf(text: String): ParserInterface =
    if (IcebergStatements.AlterTable.findPrefixOf(text).isDefined) iceberg else delegate

  override def parsePlan(text: String): LogicalPlan = parserOf(text).parsePlan(text)

  override def parsePlanWithParameters(text: String, parameters: ParameterContext): LogicalPlan =
    parserOf(text).parsePlanWithParameters(text, parameters)

  override def parseSortOrder(text: String): util.List[ExtendedParser.RawOrderField] = iceberg.parseSortOrder(text)

  override def parseQuery(text: String): LogicalPlan = delegate.parseQuery(text)
  override def parseExpression(text: String): Expression = delegate.parseExpression(text)
  override def parseTableIdentifier(text: String): TableIdentifier = delegate.parseTableIdentifier(text)
  override def parseFunctionIdentifier(text: String): FunctionIdentifier = delegate.parseFunctionIdentifier(text)
  override def parseMultipartIdentifier(text: String): Seq[String] = delegate.parseMultipartIdentifier(text)
  override def parseTableSchema(text: String): StructType = delegate.parseTableSchema(text)
  override def parseDataType(text: String): DataType = delegate.parseDataType(text)
  override def parseRoutineParam(text: String): StructType = delegate.parseRoutineParam(text)
}

private object IcebergStatements {

  /** The words, after spaces and comments. */
  private val AlterTable = """(?is)(\s+|--[^\n]*\n|/\*.*?\*/)*+alter\s+table\b""".r
}
