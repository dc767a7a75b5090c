package io.penstock.skipping.sql

import java.lang.reflect.{InvocationHandler, InvocationTargetException, Method, Proxy}

import org.antlr.v4.runtime.misc.Pair
import org.antlr.v4.runtime.{CharStream, CharStreams, CommonToken, ParserRuleContext, TokenSource}
import org.apache.spark.sql.catalyst.parser.{ParseException, ParserInterface}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.internal.VariableSubstitution

/** Another parser that understands statements about skipping too. */
object SkippingParser {

  /**
   * A proxy, since the interface has other methods in each Spark release: what is not met here is the delegate's. From
   * Spark 4.1 on a session calls `parsePlanWithParameters`, which never comes by `parsePlan`.
   *
   * A proxy lets pass unchecked exceptions and those its interface declares: [[ParseException]], which Spark's parser
   * makes of every other kind, and so is what is thrown here.
   */
  def around(delegate: ParserInterface): ParserInterface = {
    val handler: InvocationHandler = (_, method, arguments) =>
      own(method, arguments).getOrElse {
        try method.invoke(delegate, arguments: _*)
        catch { case e: InvocationTargetException => throw e.getCause }
      }
    Proxy
      .newProxyInstance(classOf[ParserInterface].getClassLoader, Array(classOf[ParserInterface]), handler)
      .asInstanceOf[ParserInterface]
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
    val token = new CommonToken(new Pair[TokenSource, CharStream](null, CharStreams.fromString(text)), 0, 0, 0, 0)
    token.setLine(error.line)
    token.setCharPositionInLine(error.column)
    val context = new ParserRuleContext
    context.start = token
    context.stop = token
    val parameters = Map("error" -> error.near, "hint" -> s": expected ${error.expected}")
    new ParseException("PARSE_SYNTAX_ERROR", parameters, context)
  }
}
