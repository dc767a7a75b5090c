package io.penstock.skipping.sql

import java.lang.reflect.{InvocationHandler, InvocationTargetException, Method, Proxy}

import scala.jdk.CollectionConverters._

import org.antlr.v4.runtime.misc.Pair
import org.antlr.v4.runtime.{CharStream, CharStreams, CommonToken, ParserRuleContext, TokenSource}
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.parser.{ParseException, ParserInterface}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.internal.VariableSubstitution

/** Another parser that understands statements about skipping too. */
object SkippingParser {

  /**
   * A proxy, since the interface has other methods in each Spark release: what is not met here is the delegate's. From
   * Spark 4.1 on a session calls `parsePlanWithParameters`, which never comes by `parsePlan`.
   *
   * A proxy lets pass unchecked exceptions and those its interface declares, which is [[ParseException]]: the
   * delegate's other mistakes of users (parameters of two styles) become one.
   */
  def around(delegate: ParserInterface): ParserInterface = {
    val handler: InvocationHandler = (_, method, arguments) =>
      own(method, arguments).getOrElse {
        try method.invoke(delegate, arguments: _*)
        catch { case e: InvocationTargetException => throw declared(e.getCause, arguments) }
      }
    Proxy
      .newProxyInstance(classOf[ParserInterface].getClassLoader, Array(classOf[ParserInterface]), handler)
      .asInstanceOf[ParserInterface]
  }

  private def declared(failure: Throwable, arguments: Array[AnyRef]): Throwable = failure match {
    case told: ParseException => told
    case mistake: AnalysisException if mistake.getCondition != null =>
      val text = Option(arguments).flatMap(_.headOption).fold("")(_.toString)
      val parameters = mistake.getMessageParameters.asScala.toMap
      new ParseException(mistake.getCondition, parameters, at(text, line = 1, column = 0))
    case other => other
  }

  private def own(method: Method, arguments: Array[AnyRef]): Option[LogicalPlan] =
    (method.getName, Option(arguments).flatMap(_.headOption)) match {
      case ("parsePlan" | "parsePlanWithParameters", Some(text: String)) => plan(text)
      case _ => None
    }

  private def plan(text: String): Option[LogicalPlan] =
    // Variables are substituted once it is known whose statement it is: a value may be a secret of somebody else's.
    if (StatementParser.parse(text).isEmpty) None
    else
      StatementParser.parse(new VariableSubstitution().substitute(text)).map {
        case Right(statement) => command(statement)
        case Left(error) => throw refused(text, error)
      }

  private def command(statement: Statement): LogicalPlan = statement match {
    case Statement.Build(table, columns, kinds) => BuildIndex(table, columns, kinds)
    case Statement.Refresh(table) => RefreshIndex(table)
    case Statement.Show(table) => ShowIndex(table)
    case Statement.Drop(table) => DropIndex(table)
    case Statement.Advice(table) => ShowAdvice(table)
    case Statement.Rewrite(table, into, layout) => RewriteTable(table, into, layout)
  }

  private def refused(text: String, error: SyntaxError): ParseException = {
    val parameters = Map("error" -> error.near, "hint" -> s": expected ${error.expected}")
    new ParseException("PARSE_SYNTAX_ERROR", parameters, at(text, error.line, error.column))
  }

  private def at(text: String, line: Int, column: Int): ParserRuleContext = {
    val token = new CommonToken(new Pair[TokenSource, CharStream](null, CharStreams.fromString(text)), 0, 0, 0, 0)
    token.setLine(line)
    token.setCharPositionInLine(column)
    val context = new ParserRuleContext
    context.start = token
    context.stop = token
    context
  }
}
