package io.penstock.catalog

import java.util

import org.apache.iceberg.spark.ExtendedParser
import org.apache.iceberg.spark.source.SparkTable
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.analysis.{ResolveBranch, ResolvedTable, UnresolvedProcedure}
import org.apache.spark.sql.catalyst.expressions.{CreateArray, Expression, Literal, NamedArgumentExpression}
import org.apache.spark.sql.catalyst.optimizer.ReplaceStaticInvoke
import org.apache.spark.sql.catalyst.parser.extensions.IcebergSparkSqlExtensionsParser
import org.apache.spark.sql.catalyst.parser.{ParameterContext, ParserInterface}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.catalyst.{FunctionIdentifier, TableIdentifier}
import org.apache.spark.sql.execution.datasources.v2.ExtendedDataSourceV2Strategy
import org.apache.spark.sql.types.{DataType, StructType}

/**
 * `spark.sql.extensions=io.penstock.catalog.IcebergExtension`: Iceberg's statements beside Spark's (partition fields,
 * branches, tags, write order), its rules for branches and partitioning functions, and `ANALYZE TABLE` for its tables.
 *
 * Iceberg's own extension has rules for its views too, which no catalog here holds, and a parser that every statement
 * passes and that cannot parse the parameters of a function.
 */
final class IcebergExtension extends (SparkSessionExtensions => Unit) {

  override def apply(extensions: SparkSessionExtensions): Unit = {
    extensions.injectParser((_, delegate) => new IcebergStatements(delegate))
    extensions.injectResolutionRule(ResolveBranch(_))
    extensions.injectResolutionRule(_ => AnalyzeIcebergTable)
    extensions.injectOptimizerRule(_ => ReplaceStaticInvoke)
    extensions.injectPlannerStrategy(ExtendedDataSourceV2Strategy(_))
  }
}

/**
 * `ANALYZE TABLE` of an Iceberg table, which Spark refuses for every table of another catalog's format: Iceberg's own
 * procedure counts the distinct values of columns in the table's present snapshot. Rows and sizes need no statement,
 * since every commit has them.
 */
private[catalog] object AnalyzeIcebergTable extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case AnalyzeColumn(Iceberg(catalog, name), columns, _) =>
      val table = NamedArgumentExpression("table", Literal(name.map(quoteIfNeeded).mkString(".")))
      val chosen = columns.map(names => NamedArgumentExpression("columns", CreateArray(names.map(Literal(_)))))
      Call(UnresolvedProcedure(Seq(catalog, "system", "compute_table_stats")), table +: chosen.toSeq, execute = true)
    case AnalyzeTable(Iceberg(_, name), partitions, _) if partitions.isEmpty => NoopCommand("ANALYZE TABLE", name)
    case _ => plan
  }

  /** An Iceberg table's catalog, and its name in it. */
  private object Iceberg {
    def unapply(plan: LogicalPlan): Option[(String, Seq[String])] = plan match {
      case ResolvedTable(catalog, identifier, _: SparkTable, _) =>
        Some(catalog.name -> (identifier.namespace.toSeq :+ identifier.name))
      case _ => None
    }
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
